"""The places that a verification takes: a federation's folder, a party's folder, or a store."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from opboost_ops.verifier.stores import is_store

FEDERATION, SITE, POLICY = "federation.yaml", "site.yaml", "policy.yaml"


class CannotBeginError(Exception):
    """A place is none that can be verified."""


@dataclass(frozen=True)
class Party:
    """A party's folder: where its ``site.yaml`` lies.

    Attributes:
        folder: The folder.
        site: Content of ``site.yaml``.
    """

    folder: Path
    site: Mapping[str, Any]

    @classmethod
    def read(cls, folder: Path) -> "Party":
        """The party of a folder.

        Raises:
            CannotBeginError: Its ``site.yaml`` cannot be read.
        """
        site = read_yaml(folder / SITE)
        if not isinstance(site.get("party"), str) or not isinstance(site.get("store"), str):
            raise CannotBeginError(f"{folder / SITE} names no party or no store.")
        return cls(folder, site)

    @property
    def name(self) -> str:
        """The party's name."""
        return str(self.site["party"])

    @cached_property
    def policy(self) -> Mapping[str, Any]:
        """Content of ``policy.yaml``."""
        return read_yaml(self.folder / POLICY)

    @property
    def store(self) -> str:
        """The folder of its store, or the store's URL; empty where it is in no file."""
        value = _resolved(self.site["store"]).removeprefix("file://")
        return value if "://" in value else _folder(self.folder / value) if value else ""

    @property
    def database(self) -> Path | None:
        """The file of its database; None where it is on a server."""
        url = _resolved(self.site.get("ledger", "sqlite:///ledger.sqlite"))
        if not url.startswith("sqlite:///"):
            return None
        return self.folder / url.removeprefix("sqlite:///")

    def table(self, federation: str) -> Path | None:
        """Its training table; None where that is no Parquet file or folder of them."""
        table = self.site.get("tables", {}).get(federation, {}).get("train")
        return self.folder / table if isinstance(table, str) else None

    def raw_column(self, name: str, identity: str) -> str:
        """The name in its tables of a column that the federation file declares."""
        if name == identity and self.policy.get("id_column"):
            return str(self.policy["id_column"])
        return str(self.policy.get("columns", {}).get(name, name))

    def path(self, key: str, default: str) -> Path | None:
        """A file or folder that ``site.yaml`` names; None where it is in no file."""
        value = str(self.site.get(key, default))
        return None if value.startswith(("env:", "airflow:")) else self.folder / value


@dataclass(frozen=True)
class Places:
    """Everything to verify.

    Attributes:
        stores: Folders of stores, or URLs, each once.
        parties: Parties' folders.
        federations: Federation files found beside parties, by the federation's name.
    """

    stores: list[str]
    parties: list[Party]
    federations: dict[str, Mapping[str, Any]]


def find_places(paths: Sequence[str | Path]) -> Places:
    """Sort places into stores and parties.

    Raises:
        CannotBeginError: One is none of these.
    """
    places = Places([], [], {})
    for path in paths:
        if "://" in str(path):
            _add_store(places, str(path))
        else:
            _add_folder(places, Path(path))
    return places


def _add_folder(places: Places, path: Path) -> None:
    folder = path.parent if path.name == FEDERATION and path.is_file() else path
    if not folder.is_dir():
        raise CannotBeginError(f"{path} is no folder.")
    whole, party = (folder / FEDERATION).is_file(), (folder / SITE).is_file()
    if whole:
        _add_federation(places, folder / FEDERATION)
    if party:
        _add_party(places, folder)
        for beside in (folder, folder.parent):
            if (beside / FEDERATION).is_file():
                _add_federation(places, beside / FEDERATION)
    elif whole:
        sites = sorted(folder.glob(f"*/{SITE}"))
        for site in sites:
            _add_party(places, site.parent)
        if not sites:
            raise CannotBeginError(f"No folder in {folder} has a {SITE}.")
    elif is_store(folder):
        _add_store(places, _folder(folder))
    else:
        raise CannotBeginError(f"{folder} has neither {FEDERATION} nor {SITE}, and is no store.")


def read_yaml(path: Path) -> Mapping[str, Any]:
    """A YAML file's mapping.

    Raises:
        CannotBeginError: It cannot be read; the message holds nothing of its content.
    """
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        content = None
    if not isinstance(content, Mapping):
        raise CannotBeginError(f"{path} cannot be read.")
    return content


def _add_federation(places: Places, path: Path) -> None:
    federation = read_yaml(path)
    if isinstance(federation.get("name"), str):
        places.federations[federation["name"]] = federation


def _add_party(places: Places, folder: Path) -> None:
    if any(party.folder.resolve() == folder.resolve() for party in places.parties):
        return
    party = Party.read(folder)
    places.parties.append(party)
    if party.store:
        _add_store(places, party.store)


def _add_store(places: Places, store: str) -> None:
    if store not in places.stores:
        places.stores.append(store)


def _folder(folder: Path) -> str:
    return str(folder.resolve())


def _resolved(value: str) -> str:
    return os.environ.get(value.removeprefix("env:"), "") if value.startswith("env:") else value

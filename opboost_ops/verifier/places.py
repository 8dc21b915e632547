"""The places that a verification takes, a folder or a store, and the artifacts that lie there."""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from pyarrow import fs as filesystem

from opboost_ops.verifier.outcomes import DAMAGED

#: In a bucket: which folder below an artifact's place has its files.
PUBLISHED = "published.json"

MANIFEST, SIGNATURE = "manifest.json", "manifest.sig"

_RUN = re.compile(r"[0-9a-f]{16}")
_MOST = 16 << 20

FEDERATION, SITE, POLICY = "federation.yaml", "site.yaml", "policy.yaml"


class Artifact:
    """An artifact as it lies in a store.

    Attributes:
        place: ``<federation>/<run>/<kind>/<party>``, with the round of horizontal learning.
        folder: Its folder.
        federation, run, kind, about: The parts of its place.
    """

    def __init__(self, place: str, folder: Path) -> None:
        self.place = place
        self.folder = folder
        self.federation, self.run, self.kind, self.about, *_ = place.split("/")

    @cached_property
    def raw(self) -> bytes:
        """The manifest's bytes; its signature is over them, and its digest is of them."""
        return read_small(self.folder / MANIFEST)

    @cached_property
    def signature(self) -> bytes:
        """The signature's bytes."""
        return read_small(self.folder / SIGNATURE)

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """The manifest.

        Raises:
            ValueError: It is no JSON object.
        """
        manifest = json.loads(self.raw)
        if not isinstance(manifest, dict):
            raise ValueError("a manifest is a JSON object")
        return manifest

    @property
    def is_canonical(self) -> bool:
        """True if the manifest is written in the one way: sorted keys, no blanks."""
        text = json.dumps(self.manifest, sort_keys=True, separators=(",", ":"))
        return text.encode() == self.raw

    @cached_property
    def digest(self) -> str:
        """Sha256 of the manifest, by which others name the artifact."""
        return hashlib.sha256(self.raw).hexdigest()

    @property
    def stored_names(self) -> dict[str, str]:
        """The names of its files in the store, by their names in the manifest."""
        end = "" if self.manifest["encrypted_to"] is None else ".enc"
        return {name: name + end for name in self.manifest["files"]}

    def content(self, name: str) -> bytes:
        """A file's bytes as they lie in the store."""
        return (self.folder / self.stored_names[name]).read_bytes()


@dataclass(frozen=True)
class Run:
    """The artifacts of one run.

    Attributes:
        federation: Name of the federation.
        run: The run's id.
        artifacts: By place below the run: ``<kind>/<party>``, with a round's name.
    """

    federation: str
    run: str
    artifacts: dict[str, Artifact]

    @property
    def name(self) -> str:
        """The name of its folder: ``<federation>/<run>``."""
        return f"{self.federation}/{self.run}"


def read_store(folder: Path) -> list[Run]:
    """All runs in a store."""
    runs = []
    for federation in _folders(folder):
        for run in _folders(federation):
            if not _RUN.fullmatch(run.name):
                continue
            artifacts = {}
            for kind in _folders(run):
                for party in _folders(kind):
                    for place in _artifacts(party):
                        name = place.relative_to(run).as_posix()
                        artifacts[name] = Artifact(
                            f"{federation.name}/{run.name}/{name}", _files_of(place)
                        )
            if artifacts:
                runs.append(Run(federation.name, run.name, artifacts))
    return runs


def copied(store: str, folder: Path) -> Path:
    """A store's folder: its own, or that to which a bucket's objects were copied.

    Raises:
        OSError: It cannot be read.
    """
    if "://" in store:
        files, path = filesystem.FileSystem.from_uri(store)
        folder.mkdir()
        filesystem.copy_files(path, str(folder), source_filesystem=files)
        return folder
    if not Path(store).is_dir():
        raise NotADirectoryError(store)
    return Path(store)


def is_store(folder: Path) -> bool:
    """True if a folder is a store: it has an identity, or a run."""
    return (folder / ".identity").exists() or bool(read_store(folder))


def read_small(path: Path) -> bytes:
    """A file of at most 16 MiB.

    Raises:
        OSError: It cannot be read.
        ValueError: It is larger.
    """
    with path.open("rb") as file:
        content = file.read(_MOST + 1)
    if len(content) > _MOST:
        raise ValueError("too large")
    return content


def _artifacts(party: Path) -> Iterator[Path]:
    rounds = list(_folders(party))
    if any(party.glob("manifest.*")) or (party / PUBLISHED).is_file() or not rounds:
        yield party
    yield from rounds


def _files_of(place: Path) -> Path:
    """The folder with an artifact's files."""
    try:
        attempt = json.loads(read_small(place / PUBLISHED))["attempt"]
    except DAMAGED:
        return place
    return place / f".{attempt}"


def _folders(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        yield from (
            path
            for path in sorted(folder.iterdir())
            if path.is_dir() and not path.is_symlink() and not path.name.startswith(".")
        )


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

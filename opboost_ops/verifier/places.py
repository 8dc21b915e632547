"""The places that a verification takes, a folder or a store, and the artifacts that lie there."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from pyarrow import fs as filesystem

from opboost_ops.verifier.outcomes import DAMAGED

#: In a bucket: which folder below an artifact's place has its files.
PUBLISHED = "published.json"

MANIFEST, SIGNATURE, DOCUMENT = "manifest.json", "manifest.sig", "document.json"
FEDERATION, SITE, POLICY = "federation.yaml", "site.yaml", "policy.yaml"

_RUN = "[0-9a-f]" * 16
_MOST = 16 << 20


class CannotBeginError(Exception):
    """A place is none that can be verified."""


class Artifact:
    """An artifact at ``<federation>/<run>/<kind>/<party>``, with a round of horizontal learning."""

    def __init__(self, place: str, folder: Path) -> None:
        self.place, self.folder = place, folder
        self.federation, self.run, self.kind, self.about, *rounds = place.split("/")
        self.round = "".join(rounds)

    @cached_property
    def raw(self) -> bytes:
        """The manifest's bytes; its signature is over them, and its digest is of them."""
        return read_small(self.folder / MANIFEST)

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """The manifest; ValueError if it is no JSON object."""
        manifest = json.loads(self.raw)
        if not isinstance(manifest, dict):
            raise ValueError("a manifest is a JSON object")
        return manifest

    @cached_property
    def digest(self) -> str:
        """Sha256 of the manifest, by which others name the artifact."""
        return sha256(self.raw)

    @property
    def is_encrypted(self) -> bool:
        """True if its files are encrypted to their receiver."""
        return self.manifest["encrypted_to"] is not None

    @property
    def stored(self) -> dict[str, Path]:
        """Where each file of its manifest lies in the store, by name."""
        end = ".enc" if self.is_encrypted else ""
        return {name: self.folder / f"{name}{end}" for name in self.manifest["files"]}


#: The artifacts of a run by ``<kind>/<party>``, with a round's name.
Artifacts = Mapping[str, Artifact]


def read_store(folder: Path) -> dict[str, Artifacts]:
    """All runs in a store, by ``<federation>/<run>``; an emptied folder is an artifact, too."""
    runs: dict[str, Artifacts] = {}
    for run in _folders(folder, 2):
        name = run.relative_to(folder).as_posix()
        places = [place for depth in (2, 3) for place in _folders(run, depth)]
        names = {
            place.relative_to(run).as_posix(): place
            for place in places
            if any(map(Path.is_file, place.iterdir())) or not any(place.iterdir())
        }
        if run.match(_RUN) and names:
            runs[name] = {
                place: Artifact(f"{name}/{place}", _files_of(path)) for place, path in names.items()
            }
    return runs


def _folders(folder: Path, depth: int) -> list[Path]:
    """The folders at a depth below another one, without hidden ones and links."""
    folders = [folder]
    for _ in range(depth):
        inner = [path for each in folders for path in sorted(each.iterdir())]
        folders = [
            path
            for path in inner
            if path.is_dir() and not path.is_symlink() and not path.name.startswith(".")
        ]
    return folders


def _files_of(place: Path) -> Path:
    """The folder with the files of an artifact: in a bucket that of the attempt that won."""
    try:
        return place / f".{json.loads(read_small(place / PUBLISHED))['attempt']}"
    except DAMAGED:
        return place


def copied(store: str, folder: Path) -> Path:
    """A store's folder: its own, or one to which a bucket was copied; OSError if unreadable."""
    if "://" in store:
        files, path = filesystem.FileSystem.from_uri(store)
        folder.mkdir()
        filesystem.copy_files(path, str(folder), source_filesystem=files)
        return folder
    if not Path(store).is_dir():
        raise NotADirectoryError(store)
    return Path(store)


def read_small(path: Path) -> bytes:
    """A file of at most 16 MiB; ValueError if it is larger."""
    with path.open("rb") as file:
        content = file.read(_MOST + 1)
    if len(content) > _MOST:
        raise ValueError("too large")
    return content


def read_json(path: Path) -> Any:
    """The JSON value in a file."""
    return json.loads(path.read_bytes())


def sha256(content: bytes) -> str:
    """Sha256, hex."""
    return hashlib.sha256(content).hexdigest()


def canonical(value: Any, *, sort_keys: bool = True) -> bytes:
    """JSON as manifests are written and digests are taken; keys of documents are not sorted."""
    return json.dumps(value, sort_keys=sort_keys, separators=(",", ":")).encode()


class Party:
    """A party's folder, where its ``site.yaml`` lies; CannotBeginError if that is unreadable."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.site = read_yaml(folder / SITE)
        if not all(isinstance(self.site.get(key), str) for key in ("party", "store")):
            raise CannotBeginError(f"{folder / SITE} names no party or no store.")
        self.name = str(self.site["party"])

    @cached_property
    def policy(self) -> Mapping[str, Any]:
        """Content of ``policy.yaml``."""
        return read_yaml(self.folder / POLICY)

    @property
    def store(self) -> str:
        """The folder of its store, or the store's URL; empty where it is in no file."""
        value = _resolved(self.site["store"]).removeprefix("file://")
        return value if "://" in value or not value else str((self.folder / value).resolve())

    @property
    def database(self) -> Path | None:
        """The file of its database; None where it is on a server."""
        url = _resolved(self.site.get("ledger", "sqlite:///ledger.sqlite"))
        is_file = url.startswith("sqlite:///")
        return self.folder / url.removeprefix("sqlite:///") if is_file else None

    def path(self, key: str, default: str) -> Path | None:
        """A file or folder that ``site.yaml`` names; None where it is in no file."""
        value = str(self.site.get(key, default))
        return None if value.startswith(("env:", "airflow:")) else self.folder / value


class Places:
    """Everything to verify; CannotBeginError if a place is none that can be verified."""

    def __init__(self, places: Sequence[str | Path]) -> None:
        self.stores: dict[str, None] = {}  # folders, or URLs, each once
        self.parties: dict[Path, Party] = {}
        self.federations: dict[str, Mapping[str, Any]] = {}  # those beside parties, by name
        for place in places:
            if "://" in str(place):
                self.stores[str(place)] = None
            else:
                self._add_folder(Path(place))

    def _add_folder(self, path: Path) -> None:
        folder = path.parent if path.name == FEDERATION and path.is_file() else path
        if not folder.is_dir():
            raise CannotBeginError(f"{path} is no folder.")
        self._add_federation(folder)
        if (folder / SITE).is_file():
            self._add_federation(folder.parent)
            self._add_party(folder)
        elif (folder / FEDERATION).is_file():
            sites = sorted(folder.glob(f"*/{SITE}"))
            for site in sites:
                self._add_party(site.parent)
            if not sites:
                raise CannotBeginError(f"No folder in {folder} has a {SITE}.")
        elif (folder / ".identity").exists() or any(folder.glob(f"*/{_RUN}/*/*")):
            self.stores[str(folder.resolve())] = None
        else:
            raise CannotBeginError(f"{folder} has no {FEDERATION}, no {SITE}, and is no store.")

    def _add_federation(self, folder: Path) -> None:
        if (folder / FEDERATION).is_file():
            federation = read_yaml(folder / FEDERATION)
            if isinstance(federation.get("name"), str):
                self.federations[federation["name"]] = federation

    def _add_party(self, folder: Path) -> None:
        party = self.parties.setdefault(folder.resolve(), Party(folder))
        if party.store:
            self.stores[party.store] = None


def read_yaml(path: Path) -> Mapping[str, Any]:
    """A YAML file's mapping, or CannotBeginError, which holds nothing of the file."""
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        content = None
    if not isinstance(content, Mapping):
        raise CannotBeginError(f"{path} cannot be read.")
    return content


def _resolved(value: str) -> str:
    return os.environ.get(value.removeprefix("env:"), "") if value.startswith("env:") else value

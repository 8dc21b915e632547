"""Folders and stores to verify, and the artifacts in a store."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from pyarrow import fs as filesystem

from opboost_ops.verifier.outcomes import READ_ERRORS

#: A file in a bucket that names the subfolder with an artifact's files.
PUBLISHED = "published.json"

MANIFEST, SIGNATURE, DOCUMENT = "manifest.json", "manifest.sig", "document.json"
FEDERATION, SITE, POLICY = "federation.yaml", "site.yaml", "policy.yaml"

_RUN_NAME, _MAX_BYTES = "[0-9a-f]" * 16, 16 << 20


class InvalidPlaceError(Exception):
    """A place is neither a federation's folder, a party's folder nor a store."""


class Artifact:
    """An artifact at ``<federation>/<run>/<kind>/<party>[/<round>]``; ``about`` is that party."""

    def __init__(self, place: str, folder: Path) -> None:
        self.place, self.folder = place, folder
        self.federation, self.run, self.kind, self.about, *rounds = place.split("/")
        self.round, self.of_run = "".join(rounds), (self.federation, self.run)

    @cached_property
    def raw(self) -> bytes:
        """The manifest's bytes, which are signed and hashed."""
        return read_small(self.folder / MANIFEST)

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """The manifest; ValueError if it is not a JSON object."""
        manifest = json.loads(self.raw)
        if not isinstance(manifest, dict):
            raise ValueError("not a JSON object")
        return manifest

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the manifest, by which other artifacts refer to this one."""
        return sha256(self.raw)

    @property
    def is_encrypted(self) -> bool:
        """True if the files are encrypted to their receiver."""
        return self.manifest["encrypted_to"] is not None

    @property
    def stored(self) -> dict[str, Path]:
        """The path in the store of each file in the manifest, by name."""
        end = ".enc" if self.is_encrypted else ""
        return {name: self.folder / f"{name}{end}" for name in self.manifest["files"]}


#: The artifacts of a run by ``<kind>/<party>[/<round>]``.
Artifacts = Mapping[str, Artifact]


def read_store(folder: Path) -> dict[str, Artifacts]:
    """All runs in a store by ``<federation>/<run>``; an empty folder also counts as an artifact."""
    runs: dict[str, Artifacts] = {}
    for run in _folders(folder, 2):
        name = run.relative_to(folder).as_posix()
        places = [place for depth in (2, 3) for place in _folders(run, depth)]
        artifacts = [
            Artifact(place.relative_to(folder).as_posix(), _files_folder(place))
            for place in places
            if any(map(Path.is_file, place.iterdir())) or not any(place.iterdir())
        ]
        if run.match(_RUN_NAME) and artifacts:
            runs[name] = {each.place.removeprefix(f"{name}/"): each for each in artifacts}
    return runs


def _folders(folder: Path, depth: int) -> list[Path]:
    """The subfolders at a depth below a folder, without hidden ones and links."""
    folders = [folder]
    for _ in range(depth):
        inner = [path for each in folders for path in sorted(each.iterdir())]
        folders = [p for p in inner if p.is_dir() and not p.is_symlink() and p.name[0] != "."]
    return folders


def _files_folder(place: Path) -> Path:
    """The folder with an artifact's files; in a bucket, that of the completed attempt."""
    try:
        digits = json.loads(read_small(place / PUBLISHED))["attempt"]
        return place / f".{bytes.fromhex(digits).hex()}"
    except READ_ERRORS:
        return place


def local_copy(store: str, folder: Path) -> Path:
    """The folder of a store; a bucket is copied to ``folder`` first. OSError if unreadable."""
    if "://" in store:
        files, path = filesystem.FileSystem.from_uri(store)
        folder.mkdir()
        filesystem.copy_files(path, str(folder), source_filesystem=files)
        return folder
    if not Path(store).is_dir():
        raise NotADirectoryError(store)
    return Path(store)


def read_small(path: Path) -> bytes:
    """The content of a file of at most 16 MiB; ValueError if it is larger."""
    with path.open("rb") as file:
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise ValueError("too large")
    return content


def sha256(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def canonical(value: Any, *, sort_keys: bool = True) -> bytes:
    """The JSON encoding of manifests and hashed values; documents do not sort their keys."""
    return json.dumps(value, sort_keys=sort_keys, separators=(",", ":")).encode()


class Party:
    """A party's folder, which contains ``site.yaml``; InvalidPlaceError if that is unreadable."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.site = read_yaml(folder / SITE)
        if not all(isinstance(self.site.get(key), str) for key in ("party", "store")):
            raise InvalidPlaceError(f"{folder / SITE} does not name a party and a store.")
        self.name = str(self.site["party"])

    @cached_property
    def policy(self) -> Mapping[str, Any]:
        """The content of ``policy.yaml``."""
        return read_yaml(self.folder / POLICY)

    @property
    def store(self) -> str:
        """The folder or URL of the store; empty if an environment variable for it is not set."""
        value = _resolve_variable(self.site["store"]).removeprefix("file://")
        return value if "://" in value or not value else str((self.folder / value).resolve())

    @property
    def database(self) -> Path | None:
        """The database file; None if the database is on a server."""
        url = _resolve_variable(self.site.get("ledger", "sqlite:///ledger.sqlite"))
        is_file = url.startswith("sqlite:///")
        return self.folder / url.removeprefix("sqlite:///") if is_file else None

    def path(self, key: str, default: str) -> Path | None:
        """A file or folder that ``site.yaml`` names; None for a variable or an Airflow secret."""
        value = str(self.site.get(key, default))
        return None if value.startswith(("env:", "airflow:")) else self.folder / value


class Places:
    """The stores and parties to verify; InvalidPlaceError for any other place."""

    def __init__(self, places: Sequence[str | Path]) -> None:
        self.stores: dict[str, None] = {}  # folders and URLs without repetition, in their order
        self.parties: dict[Path, Party] = {}
        self.federations: dict[str, Mapping[str, Any]] = {}  # federation files by name
        for place in places:
            if "://" in str(place):
                self.stores[str(place)] = None
            else:
                self._add_folder(Path(place))

    def _add_folder(self, path: Path) -> None:
        folder = path.parent if path.name == FEDERATION and path.is_file() else path
        if not folder.is_dir():
            raise InvalidPlaceError(f"{path} is not a folder.")
        self._add_federation(folder)
        if (folder / SITE).is_file():
            self._add_federation(folder.parent)
            self._add_party(folder)
        elif (folder / FEDERATION).is_file():
            sites = sorted(folder.glob(f"*/{SITE}"))
            for site in sites:
                self._add_party(site.parent)
            if not sites:
                raise InvalidPlaceError(f"No subfolder of {folder} contains {SITE}.")
        elif (folder / ".identity").exists() or any(folder.glob(f"*/{_RUN_NAME}/*/*")):
            self.stores[str(folder.resolve())] = None
        else:
            raise InvalidPlaceError(f"{folder} has no {FEDERATION} or {SITE}, and is not a store.")

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
    """The mapping in a YAML file; InvalidPlaceError, without its content, if there is none."""
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        content = None
    if not isinstance(content, Mapping):
        raise InvalidPlaceError(f"{path} cannot be read.")
    return content


def _resolve_variable(value: str) -> str:
    return os.environ.get(value.removeprefix("env:"), "") if value.startswith("env:") else value

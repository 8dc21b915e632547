"""A store in a folder: ``<federation>/<run>/<kind>/<party>``, and below that a round's name."""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pyarrow import fs as filesystem

from opboost_ops.verifier.outcomes import DAMAGED

#: In a bucket: which folder below an artifact's place has its files.
PUBLISHED = "published.json"

MANIFEST, SIGNATURE = "manifest.json", "manifest.sig"

_RUN = re.compile(r"[0-9a-f]{16}")
_MOST = 16 << 20


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

"""The store: the only channel between parties."""

import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from opboost_ops.errors import ArtifactError, ConfigError
from opboost_ops.exchange.manifest import MANIFEST

THROWAWAY = ".throwaway"


class Store(Protocol):
    """Folders of files, each written once and seen whole or not at all."""

    @property
    def throwaway(self) -> bool:
        """Whether the store was made for an experiment and may hold seeded noise."""

    def put_once(self, reference: str, files: Mapping[str, bytes]) -> bool:
        """Publish a folder that contains a manifest.

        Args:
            reference: Its place.
            files: Its files by name.

        Returns:
            True if it was new, False if the same content was already there.

        Raises:
            ArtifactError: Other content was already published there.
        """

    def get(self, reference: str) -> dict[str, bytes] | None:
        """The files of a published folder, or None if nothing is published there."""

    def list(self, prefix: str) -> list[str]:
        """References of the published folders below ``prefix``, sorted."""

    def wait(self, reference: str, timeout: float) -> dict[str, bytes]:
        """The files at a reference as soon as they are published.

        Args:
            reference: Their place.
            timeout: Seconds to wait.

        Raises:
            ArtifactError: Nothing was published there in time.
        """


class LocalStore:
    """A store in a local or mounted folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def throwaway(self) -> bool:
        """Whether the folder carries the mark of an experiment."""
        return (self._folder / THROWAWAY).is_file()

    def put_once(self, reference: str, files: Mapping[str, bytes]) -> bool:
        """See `Store.put_once`; the manifest is linked into place last, and only once."""
        folder = self._path(reference)
        folder.mkdir(parents=True, exist_ok=True)
        new = False
        for name in sorted(files, key=lambda name: name == MANIFEST):
            if _link_once(folder / name, files[name]):
                new = True
            elif (folder / name).read_bytes() != files[name]:
                raise ArtifactError(
                    f"{reference}: this run has already published something else here.",
                    "A table or a setting changed between two tries of one run: trigger a new run.",
                )
        return new

    def get(self, reference: str) -> dict[str, bytes] | None:
        """See `Store.get`."""
        folder = self._path(reference)
        if not (folder / MANIFEST).is_file():
            return None
        return {
            path.name: path.read_bytes()
            for path in sorted(folder.iterdir())
            if path.is_file() and not path.name.startswith(".")
        }

    def list(self, prefix: str) -> list[str]:
        """See `Store.list`."""
        folder = self._path(prefix) if prefix else self._folder
        found = (path.parent for path in folder.rglob(MANIFEST))
        return sorted(path.relative_to(self._folder).as_posix() for path in found)

    def wait(self, reference: str, timeout: float) -> dict[str, bytes]:
        """See `Store.wait`; looks every few milliseconds at first, ever more slowly later."""
        deadline = time.monotonic() + timeout
        pause = 0.002
        while (files := self.get(reference)) is None:
            if time.monotonic() > deadline:
                raise ArtifactError(
                    f"{reference}: nothing was published here within {timeout:.0f} s.",
                    "Look at that party's tasks or log; then run this again.",
                )
            time.sleep(pause)
            pause = min(pause * 1.2, 1.0)
        return files

    def _path(self, reference: str) -> Path:
        parts = reference.split("/")
        if any(part in ("", ".", "..") for part in parts):
            raise ArtifactError(f"{reference!r} is not a place in a store.")
        return self._folder.joinpath(*parts)


def open_store(url: str) -> Store:
    """The store behind a URL or folder of ``site.yaml``.

    Raises:
        ConfigError: No store of that kind is known.
    """
    if url.startswith("file://"):
        return LocalStore(Path(url.removeprefix("file://")))
    if "://" in url:
        scheme = url.split("://", 1)[0]
        raise ConfigError(
            f"store: this version has no store for {scheme}:// URLs.",
            "Give a folder that all parties reach, as a path or a file:// URL.",
        )
    return LocalStore(Path(url))


def _link_once(path: Path, content: bytes) -> bool:
    # A hard link fails where a name exists, so two writers can never mix their files.
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".part-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(temporary)
    return True

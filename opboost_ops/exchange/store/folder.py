"""A store in a folder: one rename publishes a whole artifact."""

import errno
import os
import shutil
import stat
import time
import uuid
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from opboost_ops.errors import ArtifactError
from opboost_ops.exchange.files import sizes_of
from opboost_ops.exchange.manifest import MANIFEST, is_run_id
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.store.places import (
    IDENTITY,
    IDENTITY_BYTES,
    conflict,
    damaged_identity,
    identity_contents,
    manifest_last,
    only_one_wins,
    parse_identity,
    parts_of,
    run_of,
    wait_for,
)
from opboost_ops.exchange.store.reads import HEADS, Admit, faults, read_artifact, read_file
from opboost_ops.tables.spill.files import fsync_folder

with suppress(ImportError):  # Available on Linux only.
    from inotify_simple import INotify, flags


class FolderNews:
    """Notifications of new files in the folders of a store.

    Args:
        root: Root of the store.

    Raises:
        OSError: The system has no notifications, or its limit is reached.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._inotify = INotify()
        self._folders: dict[int, str] = {}
        weakref.finalize(self, self._inotify.close)

    def watch(self, references: Iterable[str]) -> bool:
        """Watch places from now on; return True if all were watched since an earlier call.

        Args:
            references: The places; their folders need not exist yet.
        """
        already_watched = True
        watched = set(self._folders.values())
        for folder in {reference.rpartition("/")[0] for reference in references} - watched:
            already_watched = False
            try:
                handle = self._inotify.add_watch(self._root / folder, flags.MOVED_TO)
            except OSError:
                continue
            self._folders[handle] = folder
        return already_watched

    def wait(self, seconds: float) -> set[str]:
        """Return the places with new files since the last call; wait if there are none.

        Args:
            seconds: Maximum seconds to wait.
        """
        new_places = set()
        for event in self._inotify.read(timeout=int(seconds * 1000)):
            if event.mask & (flags.IGNORED | flags.Q_OVERFLOW):
                # The folder was removed, or events were lost: watch it again.
                self._folders.pop(event.wd, None)
            elif event.wd in self._folders:
                new_places.add(f"{self._folders[event.wd]}/{event.name}")
        return new_places


#: A file of this name at the root marks a store of experiments.
THROWAWAY = ".throwaway"

#: Mode bits of a root that is shared by the users of its group.
_SHARED = stat.S_ISGID | stat.S_ISVTX | stat.S_IWGRP

#: The file in the folder `IDENTITY`.
_STORE = "store"

#: Prefix of the names of folders that are not published yet, or no longer.
PART = ".part-"


class LocalStore:
    """A store in a local or mounted folder.

    Args:
        folder: Its root, created by the first publication.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def folder(self) -> Path:
        """Root of the store."""
        return self._folder

    @property
    def throwaway(self) -> bool:
        """True if the folder has the mark of experiments."""
        with faults(THROWAWAY):
            return (self._folder / THROWAWAY).is_file()

    def identity(self) -> str | None:
        """See `Store.identity`."""
        with faults(IDENTITY), suppress(FileNotFoundError):
            try:
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
                place = os.open(self._folder / IDENTITY, flags)
            except NotADirectoryError:
                raise damaged_identity() from None
            try:
                return parse_identity(read_file(place, IDENTITY, _STORE, IDENTITY_BYTES))
            except Rejected:
                raise damaged_identity() from None
            finally:
                os.close(place)
        return None

    def set_identity(self, identity: str) -> None:
        """See `Store.set_identity`; a folder, because its rename is atomic on every mount."""
        with faults(IDENTITY):
            _make_folder(self._folder, self._folder)
            place = self._folder / IDENTITY
            _publish(place, [_STORE], {_STORE: identity_contents(identity)}, durable=True)

    def keeps_first(self, federation: str) -> bool:
        """See `Store.keeps_first`; named as a part, so that it is collected after a crash."""
        folder = self._path(federation)
        place = folder / f"{PART}{uuid.uuid4().hex}"

        def write(content: bytes) -> bool:
            return _publish(place, [_STORE], {_STORE: content}, durable=False)

        with faults(federation):
            _make_folder(folder, self._folder)
            try:
                return only_one_wins(write, (place / _STORE).read_bytes)
            finally:
                shutil.rmtree(place, ignore_errors=True)

    def put_once(self, reference: str, files: Mapping[str, bytes], *, durable: bool = True) -> bool:
        """See `Store.put_once`."""
        place = self._path(reference)
        names = manifest_last(reference, files)
        with faults(reference):
            same = _has_files(place, reference, files)
            if same is None:
                if not os.path.isdir(place.parent):
                    _make_folder(place.parent, self._folder)
                _require_room(place.parent, reference, sum(sizes_of(files).values()))
                if _publish(place, names, files, durable):
                    return True
                same = _has_files(place, reference, files)
        if same is None:
            raise ArtifactError(
                f"{reference}: its place contains an unfinished artifact of an unknown writer.",
                "Remove that folder from the store by hand; then run this again.",
            )
        if same is False:
            raise conflict(reference)
        return False

    def get(self, reference: str, admit: Admit | None = None) -> Mapping[str, bytes] | None:
        """See `Store.get`."""
        with faults(reference):
            return read_artifact(self._path(reference), reference, admit)

    def wait(
        self, reference: str, timeout: float, admit: Admit | None = None
    ) -> Mapping[str, bytes]:
        """See `Store.wait`."""
        return wait_for(lambda place: self.get(place, admit), reference, timeout, pause=0.002)

    def news(self) -> FolderNews | None:
        """Return notifications of publications; None if this system has none."""
        with suppress(OSError, NameError):
            return FolderNews(self._folder)
        return None

    def written(self, reference: str) -> float | None:
        """See `Store.written`."""
        with faults(reference), suppress(FileNotFoundError, NotADirectoryError):
            return (self._path(reference) / MANIFEST).lstat().st_mtime
        return None

    def runs(self, federation: str) -> list[str]:
        """See `Store.runs`."""
        folder = self._path(federation)
        with faults(federation), suppress(FileNotFoundError):
            return [] if folder.is_symlink() else sorted(filter(is_run_id, os.listdir(folder)))
        return []

    def garbage(self, older_than_seconds: float) -> list[str]:
        """See `Store.garbage`."""
        with faults("garbage"):
            return [
                part.relative_to(self._folder).as_posix()
                for part in self._parts()
                if time.time() - _last_change(part) >= older_than_seconds
            ]

    def collect(self, older_than_seconds: float) -> list[str]:
        """See `Store.collect`."""
        collected = []
        failure: Exception | None = None
        for name in self.garbage(older_than_seconds):
            try:
                with faults(name):
                    if _remove(self._folder / name, (self._folder / name).parent):
                        collected.append(name)
            except (ArtifactError, ConnectionError) as error:
                failure = failure or error  # Another user's part: remove all others first.
        if failure is not None:
            raise failure
        return collected

    def remove_run(self, federation: str, run: str) -> int:
        """See `Store.remove_run`; one rename removes the whole run."""
        place = run_of(federation, run)
        removed = len(self.list(place))
        with faults(place):
            folder = self._path(place)
            return removed if _remove(folder, folder.parent) else 0

    def _path(self, reference: str) -> Path:
        """Return the path of a reference, if none of its parent folders is a link."""
        *above, last = parts_of(reference)
        place = self._folder
        for name in above:
            place /= name
            if place.is_symlink():
                raise ArtifactError(
                    f"{reference}: a parent folder is a link, and links are not followed.",
                    "Remove the link, and find out who created it: nothing was read or written.",
                )
        return place / last

    def _parts(self) -> list[Path]:
        parts = []
        for folder, folders, names in _walk(self._folder, root=True):
            parts += [folder / name for name in (*folders, *names) if name.startswith(PART)]
        return sorted(parts)

    # The last method, because its name hides the builtin from here on.
    def list(self, prefix: str) -> list[str]:
        """See `Store.list`."""
        start = self._path(prefix) if prefix else self._folder
        with faults(prefix):
            return sorted(
                folder.relative_to(self._folder).as_posix()
                for folder, _, names in _walk(start, root=not prefix)
                if MANIFEST in names
            )


def _has_files(place: Path, reference: str, files: Mapping[str, bytes]) -> bool | None:
    """Return True if a place has exactly these files; None if nothing is published there."""

    def sizes(_: Mapping[str, bytes]) -> Mapping[str, int]:
        return {name: size for name, size in sizes_of(files).items() if name not in HEADS}

    try:
        published = read_artifact(place, reference, sizes)
        if published is None:
            return None
        return set(published) == set(files) and all(
            published[name] == files[name] for name in files
        )
    except Rejected:
        return False


def _make_folder(folder: Path, root: Path) -> None:
    mode = stat.S_IMODE(root.stat().st_mode) if root.is_dir() else 0
    if mode & _SHARED != _SHARED:
        folder.mkdir(parents=True, exist_ok=True)
        return
    # Several users share this store: all may add to any folder, and each may remove only their own
    # entries.
    place = root
    for name in folder.relative_to(root).parts:
        place /= name
        try:
            place.mkdir()
        except FileExistsError:
            continue
        place.chmod(mode)


def _require_room(folder: Path, what: str, needed: int) -> None:
    """Check the free disk space before anything is written."""
    disk = shutil.disk_usage(folder)
    # Some mounts report a size of 0, whatever their capacity.
    if disk.total and needed > disk.free:
        raise ArtifactError(
            f"{what}: it needs {needed / 1e6:,.1f} MB in the store's folder, but only "
            f"{disk.free / 1e6:,.1f} MB are free.",
            "Free some space, or give the store a larger disk; then clear this task: nothing was "
            "written.",
        )


def _publish(place: Path, names: list[str], files: Mapping[str, bytes], durable: bool) -> bool:
    part = place.parent / f"{PART}{uuid.uuid4().hex}"
    os.mkdir(part)
    moved = False
    try:
        for name in names:
            _write(f"{part}/{name}", files[name], durable)
        # Only the publisher may change an artifact, even in a folder that others may add to.
        mode = stat.S_IMODE(os.stat(part).st_mode)
        if mode & (stat.S_IWGRP | stat.S_IWOTH):
            os.chmod(part, mode & ~(stat.S_IWGRP | stat.S_IWOTH))
        if durable:
            fsync_folder(part)
        part.rename(place)
        moved = True
        if durable:
            fsync_folder(place.parent)
    except OSError as error:
        # A rename never replaces a non-empty folder: another writer was first.
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
    finally:
        if not moved:
            shutil.rmtree(part, ignore_errors=True)
    return moved


def _write(path: str, raw: bytes, durable: bool) -> None:
    # System calls, because a run with rounds writes thousands of small files.
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        left = memoryview(raw)
        while left:
            left = left[os.write(handle, left) :]
        os.fchmod(handle, 0o644)
        if durable:
            # Sync before the rename: a power cut must not leave empty files at the place.
            os.fsync(handle)
    finally:
        os.close(handle)


def _remove(folder: Path, beside: Path) -> bool:
    # Rename first: readers see all or nothing, and an unfinished writer cannot publish it.
    part = beside / f"{PART}{uuid.uuid4().hex}"
    try:
        folder.rename(part)
    except FileNotFoundError:
        return False
    if part.is_dir() and not part.is_symlink():
        shutil.rmtree(part)
    else:
        part.unlink()
    return True


def _walk(start: Path, root: bool = False) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Walk folders, as `os.walk` does; links are not followed, except the store's root."""
    if start.is_symlink() and not root:
        return

    def raise_unless_missing(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    for folder, folders, names in os.walk(start, onerror=raise_unless_missing):
        yield Path(folder), folders, names
        folders[:] = [name for name in folders if not name.startswith(".")]


def _last_change(part: Path) -> float:
    times = [0.0]
    for path in (part, *(() if part.is_symlink() else part.rglob("*"))):
        try:
            times.append(path.lstat().st_mtime)
        except FileNotFoundError:
            return time.time()  # A writer is using it.
    return max(times)

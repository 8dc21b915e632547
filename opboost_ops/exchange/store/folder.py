"""A store in a folder: an artifact comes into its place by one rename, and so whole."""

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

with suppress(ImportError):  # It is there on Linux alone.
    from inotify_simple import INotify, flags


class FolderNews:
    """Notifications of new files in the folders of a store.

    Args:
        root: The store's.

    Raises:
        OSError: The system tells nothing, or not to more processes.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._inotify = INotify()
        self._folders: dict[int, str] = {}
        weakref.finalize(self, self._inotify.close)

    def watch(self, references: Iterable[str]) -> bool:
        """Be told of places from now on; True if nothing was missed since an earlier call.

        Args:
            references: The places; a folder in which one will be may be missing yet.
        """
        before = True
        watched = set(self._folders.values())
        for folder in {reference.rpartition("/")[0] for reference in references} - watched:
            before = False
            try:
                handle = self._inotify.add_watch(self._root / folder, flags.MOVED_TO)
            except OSError:
                continue
            self._folders[handle] = folder
        return before

    def wait(self, seconds: float) -> set[str]:
        """Places where something came since the last call, or the first within a time.

        Args:
            seconds: That time.
        """
        came = set()
        for event in self._inotify.read(timeout=int(seconds * 1000)):
            if event.mask & (flags.IGNORED | flags.Q_OVERFLOW):
                # Its folder is gone, or something was missed: start over.
                self._folders.pop(event.wd, None)
            elif event.wd in self._folders:
                came.add(f"{self._folders[event.wd]}/{event.name}")
        return came


#: A file of this name at the root marks a store of experiments.
THROWAWAY = ".throwaway"

#: A root with these bits is shared by the users of its group.
_SHARED = stat.S_ISGID | stat.S_ISVTX | stat.S_IWGRP

#: The file in the folder of a store's identity.
_STORE = "store"

#: How the names of folders begin that are not published yet, or no more.
PART = ".part-"


class LocalStore:
    """A store in a local or mounted folder.

    Args:
        folder: Its root; it is made when something is published.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def folder(self) -> Path:
        """Its root."""
        return self._folder

    @property
    def throwaway(self) -> bool:
        """True if the folder carries the mark of an experiment."""
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
        """See `Store.set_identity`; a folder, as it comes by one rename on every mount."""
        with faults(IDENTITY):
            _make(self._folder, self._folder)
            place = self._folder / IDENTITY
            _move_in(place, [_STORE], {_STORE: identity_contents(identity)}, durable=True)

    def keeps_first(self, federation: str) -> bool:
        """See `Store.keeps_first`; named as a part, which is collected after a crash."""
        folder = self._path(federation)
        place = folder / f"{PART}{uuid.uuid4().hex}"

        def write(content: bytes) -> bool:
            return _move_in(place, [_STORE], {_STORE: content}, durable=False)

        with faults(federation):
            _make(folder, self._folder)
            try:
                return only_one_wins(write, (place / _STORE).read_bytes)
            finally:
                shutil.rmtree(place, ignore_errors=True)

    def put_once(self, reference: str, files: Mapping[str, bytes], *, durable: bool = True) -> bool:
        """See `Store.put_once`."""
        place = self._path(reference)
        names = manifest_last(reference, files)
        with faults(reference):
            same = _mine(place, reference, files)
            if same is None:
                if not os.path.isdir(place.parent):
                    _make(place.parent, self._folder)
                _require_room(place.parent, reference, sum(sizes_of(files).values()))
                if _move_in(place, names, files, durable):
                    return True
                same = _mine(place, reference, files)
        if same is None:
            raise ArtifactError(
                f"{reference}: an unfinished write of an unknown writer blocks it.",
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
        """Tells when something is published, as far as this system tells; None if it can't."""
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
                failure = failure or error  # Another user's: all others go nevertheless.
        if failure is not None:
            raise failure
        return collected

    def remove_run(self, federation: str, run: str) -> int:
        """See `Store.remove_run`; the whole run leaves its place by one rename."""
        place = run_of(federation, run)
        removed = len(self.list(place))
        with faults(place):
            folder = self._path(place)
            return removed if _remove(folder, folder.parent) else 0

    def _path(self, reference: str) -> Path:
        """The place of a reference, no folder above which is a link out of the store."""
        *above, last = parts_of(reference)
        place = self._folder
        for name in above:
            place /= name
            if place.is_symlink():
                raise ArtifactError(
                    f"{reference}: a folder above it is a link, which is not followed.",
                    "Remove the link, and find out who made it: nothing was read or written.",
                )
        return place / last

    def _parts(self) -> list[Path]:
        parts = []
        for folder, folders, names in _walk(self._folder, root=True):
            parts += [folder / name for name in (*folders, *names) if name.startswith(PART)]
        return sorted(parts)

    # Last of all, because from here on its name hides the builtin.
    def list(self, prefix: str) -> list[str]:
        """See `Store.list`."""
        start = self._path(prefix) if prefix else self._folder
        with faults(prefix):
            return sorted(
                folder.relative_to(self._folder).as_posix()
                for folder, _, names in _walk(start, root=not prefix)
                if MANIFEST in names
            )


def _mine(place: Path, reference: str, files: Mapping[str, bytes]) -> bool | None:
    """True if these files lie at a place; None if nothing does."""

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


def _make(folder: Path, root: Path) -> None:
    mode = stat.S_IMODE(root.stat().st_mode) if root.is_dir() else 0
    if mode & _SHARED != _SHARED:
        folder.mkdir(parents=True, exist_ok=True)
        return
    # Several users share this store: all may add to any folder, and each removes
    # its own alone.
    place = root
    for name in folder.relative_to(root).parts:
        place /= name
        try:
            place.mkdir()
        except FileExistsError:
            continue
        place.chmod(mode)


def _require_room(folder: Path, what: str, needed: int) -> None:
    """Refuse what the disk cannot hold, before a byte of it is written."""
    room = shutil.disk_usage(folder)
    # A mount that does not say how large it is may hold anything.
    if room.total and needed > room.free:
        raise ArtifactError(
            f"{what}: it needs {needed / 1e6:,.1f} MB in the store's folder, and "
            f"{room.free / 1e6:,.1f} MB are free.",
            "Free some, or give the store a larger disk; then clear this task: nothing of it was "
            "written.",
        )


def _move_in(place: Path, names: list[str], files: Mapping[str, bytes], durable: bool) -> bool:
    part = place.parent / f"{PART}{uuid.uuid4().hex}"
    os.mkdir(part)
    moved = False
    try:
        for name in names:
            _write(f"{part}/{name}", files[name], durable)
        # What is published is its publisher's own, also in a folder that others may add to.
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
        # A rename never replaces a folder that holds something: another writer was first.
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
    finally:
        if not moved:
            shutil.rmtree(part, ignore_errors=True)
    return moved


def _write(path: str, raw: bytes, durable: bool) -> None:
    # By the system's own calls: a run with rounds writes thousands of small files.
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        left = memoryview(raw)
        while left:
            left = left[os.write(handle, left) :]
        os.fchmod(handle, 0o644)
        if durable:
            # On disk before the place is: a power cut must not leave empty files there.
            os.fsync(handle)
    finally:
        os.close(handle)


def _remove(folder: Path, beside: Path) -> bool:
    # First away from its name: readers see all or nothing, and a writer cannot publish it any more.
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
    """Folders with their folders and files; links are not followed, but for the store's root."""
    if start.is_symlink() and not root:
        return

    def complain(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    for folder, folders, names in os.walk(start, onerror=complain):
        yield Path(folder), folders, names
        folders[:] = [name for name in folders if not name.startswith(".")]


def _last_change(part: Path) -> float:
    times = [0.0]
    for path in (part, *(() if part.is_symlink() else part.rglob("*"))):
        try:
            times.append(path.lstat().st_mtime)
        except FileNotFoundError:
            return time.time()  # Somebody is at work in it.
    return max(times)

"""Atomically written files, and private folders; only the party's own user can read them."""

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import BinaryIO
from uuid import uuid4

#: Prefix of a folder that is not locked yet.
_UNNAMED = ".new"

#: Seconds after which such a folder was left by a killed process; others are locked at once.
_ABANDONED = 3600.0


def private_folder(folder: Path) -> None:
    """Create a folder and its missing parents, accessible only by their owner.

    ``mkdir(parents=True, mode=...)`` would apply the mode to the last one only.
    """
    if folder.is_dir():
        return
    for path in reversed((folder, *folder.parents)):
        if not path.is_dir():
            path.mkdir(exist_ok=True, mode=0o700)


@contextmanager
def working_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Create a temporary folder for rows or keys; also remove those of killed processes.

    The process keeps it locked, which shows others that it is in use. It is renamed to its final
    name only once it is locked, so that nobody takes a new folder for an abandoned one.

    Args:
        parent: Its parent; created if it does not exist.
        prefix: Prefix of the names of such folders.
    """
    private_folder(parent)
    for left in parent.glob(f"{prefix}*"):
        with suppress(OSError), _locked(left):
            shutil.rmtree(left, ignore_errors=True)
    for left in parent.glob(f"{_UNNAMED}{prefix}*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _ABANDONED:
                left.rmdir()
    with ExitStack() as stack:
        unnamed = Path(mkdtemp(prefix=f"{_UNNAMED}{prefix}", dir=parent))
        # On a disk without locks, no folder is considered abandoned.
        with suppress(OSError):
            stack.enter_context(_locked(unnamed))
        folder = parent / unnamed.name.removeprefix(_UNNAMED)
        for place in (unnamed, folder):
            stack.callback(shutil.rmtree, place, ignore_errors=True)
        yield unnamed.rename(folder)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


@contextmanager
def whole_file(path: Path, durable: bool = True, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Write a file atomically: it replaces an existing one when it is complete.

    Args:
        path: The file; missing folders are created. The temporary file next to it is named
            ``.<name>.<hex>.new``; a killed process leaves it behind.
        durable: True if the file must survive a power failure.
        mode: Its permissions, subject to the process's umask.
    """
    private_folder(path.parent)
    temporary = path.with_name(f".{path.name}.{uuid4().hex}.new")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with open(os.open(temporary, flags, mode), "wb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
        if durable:
            fsync_folder(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def locked_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading and writing while no other process does; create it if missing.

    Args:
        path: The file, in an existing folder.
    """
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
        # A disk without locks protects from sequential, not from simultaneous processes.
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def replace_text(path: Path, text: str) -> None:
    """Write a file that people edit, atomically, and keep its permissions.

    Args:
        path: The file, or a link to it.
        text: Its content.
    """
    path = path.resolve()
    with whole_file(path, mode=0o666) as file:
        with suppress(FileNotFoundError):
            os.fchmod(file.fileno(), path.stat().st_mode & 0o777)
        file.write(text.encode())


def fsync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk, unless the folder cannot be listed."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def link_or_copy(path: Path, target: Path) -> None:
    """Preserve the content of a file that is only ever replaced as a whole.

    Args:
        path: The file.
        target: A hard link to it; a copy if the disk has no hard links.
    """
    try:
        os.link(path, target)
    except OSError:
        shutil.copy2(path, target)

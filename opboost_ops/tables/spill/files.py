"""Files that are there whole or not at all, and folders; only the party's own user reads them."""

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

#: How the name of a folder begins that is not locked yet.
_UNNAMED = ".new"

#: Seconds after which such a folder is of a killed process: it is locked at once, and empty before.
_ABANDONED = 3600.0


def private_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing, each for its owner alone.

    ``mkdir(parents=True, mode=...)`` gives the mode to the last one only.
    """
    if folder.is_dir():
        return
    for path in reversed((folder, *folder.parents)):
        if not path.is_dir():
            path.mkdir(exist_ok=True, mode=0o700)


@contextmanager
def working_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """A folder for rows or keys, gone afterwards; those that killed processes left go, too.

    Its process keeps it locked, by which others see that it is in use. It has its name only once
    it is locked, so that nobody takes a new one for abandoned.

    Args:
        parent: Where it is made; a folder that is missing is made.
        prefix: How the names of such folders begin.
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
        # Where the disk knows no locks, none is taken for abandoned.
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
    """Write a file, which takes the place of what there was when it is complete.

    Args:
        path: The file; folders that are missing are made. It is written beside as
            ``.<name>.<hex>.new``, which a killed process leaves.
        durable: Whether it must survive a power cut.
        mode: Its rights, without those that the process gives to nobody.
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
            force(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def replace_text(path: Path, text: str) -> None:
    """Write a file that people edit: whole or not at all, with the rights that it had.

    Args:
        path: The file; of a link, the file that it leads to.
        text: Its content.
    """
    path = path.resolve()
    with whole_file(path, mode=0o666) as file:
        with suppress(FileNotFoundError):
            os.fchmod(file.fileno(), path.stat().st_mode & 0o777)
        file.write(text.encode())


def force(folder: Path) -> None:
    """Let a folder's names be on the disk, unless its files may be written and not listed."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def second_name(path: Path, target: Path) -> None:
    """Keep what a file is now, which is replaced and never changed.

    Args:
        path: The file.
        target: Its second name; a copy, where the disk knows no second names.
    """
    try:
        os.link(path, target)
    except OSError:
        shutil.copy2(path, target)

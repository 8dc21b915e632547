"""Files that are there whole or not at all, whatever ends in between."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4


def put_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file in the place of what there was, on the disk before it returns.

    Args:
        path: The file, readable by its owner alone.
        write: Writes it to another place beside, ``.<name>.<hex>.new``, which a killed one leaves.
    """
    temporary = path.with_name(f".{path.name}.{uuid4().hex}.new")
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)):
        pass
    write(temporary)
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.replace(path)
    force(path.parent)


def force(folder: Path) -> None:
    """Let a folder's names be on the disk."""
    handle = os.open(folder, os.O_RDONLY)
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

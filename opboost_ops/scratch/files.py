"""Files that are there whole or not at all, and that only the party's own user can read."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from opboost_ops.scratch.folders import private_folder


@contextmanager
def whole_file(path: Path, durable: bool = True) -> Iterator[BinaryIO]:
    """Write a file, which takes the place of what there was when it is complete.

    Args:
        path: The file; folders that are missing are made.
        durable: Whether it must survive a power cut.
    """
    private_folder(path.parent)
    temporary = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with open(os.open(temporary, flags, 0o600), "wb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise

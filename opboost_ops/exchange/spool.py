"""Parts that wait at home until they are sent: made once, hashed, and read again one by one."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from opboost_ops.errors import ContractError

#: Given a part's name and bytes, keeps it and gives what reads it again.
Keep = Callable[[str, bytes], Callable[[], bytes]]


class Spool:
    """A folder of parts, readable by their owner alone.

    Args:
        folder: Where; it is made when the first part comes.
        party: Whose, for the error.
    """

    def __init__(self, folder: Path, party: str) -> None:
        self._folder = folder
        self._party = party
        self._count = 0

    def require_room(self, needed: int) -> None:
        """Refuse parts that the disk cannot hold, before the first of them is written.

        Args:
            needed: Bytes that they may take.

        Raises:
            ContractError: There is less room.
        """
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        free = shutil.disk_usage(self._folder).free
        if needed > free:
            raise ContractError(
                f"What {self._party} sends needs up to {needed / 1e6:,.0f} MB in its home folder "
                f"while it is sent, and {free / 1e6:,.0f} MB are free.",
                "Free some, set retention_days, or move home in site.yaml to a larger disk. Then "
                "clear this task: nothing was written.",
            )

    def keep(self, name: str, raw: bytes) -> Callable[[], bytes]:
        """Keep a part.

        Args:
            name: Its name, for whoever looks into the folder.
            raw: It.

        Returns:
            What reads it again.
        """
        path = self._folder / f"{self._count:05}-{name}"
        self._count += 1
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        with open(os.open(path, flags, 0o600), "wb") as file:
            file.write(raw)
        return partial(path.read_bytes)


@contextmanager
def spooling(folder: Path, party: str) -> Iterator[Spool]:
    """A spool whose folder is gone afterwards; what a crash has left there is removed before.

    Args:
        folder: Where.
        party: Whose.
    """
    shutil.rmtree(folder, ignore_errors=True)
    try:
        yield Spool(folder, party)
    finally:
        shutil.rmtree(folder, ignore_errors=True)

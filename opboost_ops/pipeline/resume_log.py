"""Draws and trials of a run so far, line by line: a retry goes on from there."""

import hashlib
import os

from opboost_ops.pipeline.home import Home


class ResumeLog:
    """Draws of a run so far, in the party's home: a retry goes on from there.

    Args:
        home: Of the run.
        file: Its name there.
    """

    def __init__(self, home: Home, file: str = "drawn_trees.jsonl") -> None:
        self._path = home.folder / file

    def lines(self) -> list[bytes]:
        """All whole lines; a line that a crash cut off was never used."""
        if not self._path.is_file():
            return []
        whole, _, _ = self._path.read_bytes().rpartition(b"\n")
        return whole.split(b"\n") if whole else []

    def append(self, line: bytes) -> None:
        """Keep one more; it is on the disk when this returns."""
        flags = os.O_RDWR | os.O_CREAT
        with open(os.open(self._path, flags, 0o600), "r+b") as file:
            # What a crash cut off is overwritten.
            file.truncate(file.read().rfind(b"\n") + 1)
            file.seek(0, os.SEEK_END)
            file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def name(self) -> str:
        """A name of this draw, which another draw in the same run does not have."""
        return hashlib.sha256(b"".join(self.lines()[:1])).hexdigest()

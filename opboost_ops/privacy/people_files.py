"""Whose cells they are: the keyed hashes of the people of a draw, once for all of its columns.

A file is named by the digest of what it holds and never changed, so that states of many columns can
point to it; one to which none points any more is removed.
"""

import hashlib
import mmap
from collections.abc import Collection
from pathlib import Path

import numpy as np

from opboost_ops.errors import BudgetError
from opboost_ops.scratch.arrays import Scratch, slices, watch
from opboost_ops.scratch.files import force, whole_file

#: What their names end with.
SUFFIX = ".people"

#: How many are kept in memory: mostly all columns at hand have the same people.
_KEPT = 2


class PeopleFiles:
    """The files of people in a folder of cell states.

    Args:
        folder: Where they lie.
        scratch: How many of them are held in memory; more are mapped.
    """

    def __init__(self, folder: Path, scratch: Scratch) -> None:
        self._folder = folder
        self._scratch = scratch
        self._kept: dict[Path, np.ndarray] = {}
        self._named: tuple[np.ndarray, str] | None = None

    def path(self, name: str) -> Path:
        """Where a file lies.

        Args:
            name: The file's, 32 hex digits.
        """
        return self._folder / f"{name}{SUFFIX}"

    def write(self, people: np.ndarray) -> str:
        """Write people that were never written; those that were are there already.

        Args:
            people: Keyed hashes, uint64, rising, shape (n,).

        Returns:
            The file's name.
        """
        name = self._name(people)
        path = self.path(name)
        if not path.is_file() or path.stat().st_size != people.nbytes:
            with whole_file(path) as file:
                for rows in slices(len(people)):
                    file.write(people[rows].astype("<u8", copy=False).tobytes())
        return name

    def read(self, name: str) -> np.ndarray:
        """The people of a file.

        Args:
            name: The file's.

        Returns:
            Keyed hashes, uint64, rising, shape (n,); the same array for the same file.

        Raises:
            FileNotFoundError: There is none.
            BudgetError: It is not what was written.
        """
        path = self.path(name)
        known = self._kept.get(path)
        if known is None:
            known = self._content(path)
            if _digest(known) != name:
                raise BudgetError(
                    f"{path.name}, which says whose some cell states are, is damaged.",
                    "Put it back from the newest backup, or go on without the states "
                    "(`opboost ledger recover SITE`).",
                )
            known.flags.writeable = False
            while len(self._kept) >= _KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[path] = known
        return known

    def remove_others(self, names: Collection[str]) -> None:
        """Remove all files but some.

        Args:
            names: Of those that stay.
        """
        gone = [path for path in self._folder.glob(f"*{SUFFIX}") if path.stem not in names]
        for path in gone:
            path.unlink()
            self._kept.pop(path, None)
        if gone:
            force(self._folder)

    def _content(self, path: Path) -> np.ndarray:
        size = path.stat().st_size
        if self._scratch.holds(size // 8):
            return np.fromfile(path, dtype="<u8")
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), size - size % 8, access=mmap.ACCESS_READ)
        watch(mapped)
        return np.frombuffer(mapped, dtype="<u8")

    def _name(self, people: np.ndarray) -> str:
        for path, known in self._kept.items():
            if known is people:
                return path.stem
        if self._named is None or self._named[0] is not people:
            self._named = (people, _digest(people))
        return self._named[1]


def _digest(people: np.ndarray) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for rows in slices(len(people)):
        digest.update(people[rows].astype("<u8", copy=False).tobytes())
    return digest.hexdigest()

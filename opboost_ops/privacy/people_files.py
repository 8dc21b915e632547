"""Whose cells they are: the keyed hashes of the people of a draw, once for all of its columns.

A file is named by the digest of what it holds and never changed, so that states of many columns can
point to it; one to which none points any more is removed.
"""

import hashlib
from collections.abc import Collection
from pathlib import Path

import numpy as np

from opboost_ops.errors import BudgetError
from opboost_ops.privacy.whole_files import force, put_whole

#: What their names end with.
SUFFIX = ".people"

#: How many are kept in memory: mostly all columns at hand have the same people.
_KEPT = 2


class PeopleFiles:
    """The files of people in a folder of cell states."""

    def __init__(self) -> None:
        self._kept: dict[Path, np.ndarray] = {}
        self._named: tuple[np.ndarray, str] | None = None

    def path(self, folder: Path, name: str) -> Path:
        """Where a file lies.

        Args:
            folder: Of cell states.
            name: The file's, 32 hex digits.
        """
        return folder / f"{name}{SUFFIX}"

    def write(self, folder: Path, people: np.ndarray) -> str:
        """Write people that were never written; those that were are there already.

        Args:
            folder: Of cell states.
            people: Keyed hashes, uint64, rising, shape (n,).

        Returns:
            The file's name.
        """
        name = self._name(people)
        path = self.path(folder, name)
        if not path.is_file() or path.stat().st_size != people.nbytes:
            content = np.ascontiguousarray(people, dtype="<u8")
            put_whole(path, lambda temporary: content.tofile(temporary))
        return name

    def read(self, folder: Path, name: str) -> np.ndarray:
        """The people of a file.

        Args:
            folder: Of cell states.
            name: The file's.

        Returns:
            Keyed hashes, uint64, rising, shape (n,); the same array for the same file.

        Raises:
            FileNotFoundError: There is none.
            BudgetError: It is not what was written.
        """
        path = self.path(folder, name)
        known = self._kept.get(path)
        if known is None:
            known = np.fromfile(path, dtype="<u8")
            if _digest(known) != name:
                raise BudgetError(
                    f"{path.name}, which says whose some cell states are, is damaged.",
                    "Put it back from the newest backup. Where there is none, remove it, and "
                    "charge what the states cannot tell with `opboost ledger accept SITE`.",
                )
            known.flags.writeable = False
            while len(self._kept) >= _KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[path] = known
        return known

    def whole(self, folder: Path, name: str, count: int) -> bool:
        """Whether a file is there with all of its people.

        Args:
            folder: Of cell states.
            name: The file's.
            count: How many people it has.
        """
        path = self.path(folder, name)
        return path.is_file() and path.stat().st_size == 8 * count

    def remove_others(self, folder: Path, names: Collection[str]) -> None:
        """Remove all files but some.

        Args:
            folder: Of cell states.
            names: Of those that stay.
        """
        gone = [path for path in folder.glob(f"*{SUFFIX}") if path.stem not in names]
        for path in gone:
            path.unlink()
            self._kept.pop(path, None)
        if gone:
            force(folder)

    def _name(self, people: np.ndarray) -> str:
        for path, known in self._kept.items():
            if known is people:
                return path.stem
        if self._named is None or self._named[0] is not people:
            self._named = (people, _digest(people))
        return self._named[1]


def _digest(people: np.ndarray) -> str:
    content = np.ascontiguousarray(people, dtype="<u8")
    return hashlib.blake2b(content.data, digest_size=16).hexdigest()

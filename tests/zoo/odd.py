"""An odd table: how it is written, and its one meaning or its one refusal."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

#: Columns of a table by name, as they are to be written: texts of a CSV file, or any Arrow values.
Columns = Mapping[str, Sequence[Any]]

#: Writes columns into a new folder; the path or pattern by which they are read.
Lay = Callable[[Columns, Path], Path]

#: In place of a meaning: the column is no feature, and the reader or `init` says why.
TOLD = "told"


@dataclass(frozen=True)
class Odd:
    """A table of a few rows, or of any number of repetitions of them.

    Attributes:
        name: Of the case.
        cells: Of column ``x``, as they are written.
        meaning: Value of each cell; a text is what the refusal says, or `TOLD`; empty where
            there is no row.
        lay: Writes it.
        kind: How ``x`` is declared, if it is.
        dialect: As declared.
        half: Only the first half of the rows is there.
        by: Who refuses it: the reader, or the check of what is declared.
        ids: Makes the ID of a row, by its number.
        means_ids: The IDs that the same numbers mean, if they are others.
    """

    name: str
    cells: Sequence[Any]
    meaning: Any
    lay: Lay
    kind: str | None = None
    dialect: Mapping[str, Any] = field(default_factory=dict)
    half: bool = False
    by: Literal["reader", "check"] = "reader"
    ids: Callable[[int], Any] = "p{:04d}".format
    means_ids: Callable[[int], Any] | None = None

    @property
    def refused(self) -> bool:
        """Whether nothing can be read from it."""
        return isinstance(self.meaning, str) and self.meaning != TOLD

    def write(self, folder: Path, rows: int, first: int = 0, **more: Sequence[Any]) -> Path:
        """Write the table.

        Args:
            folder: A new one.
            rows: How many.
            first: Number of the first row.
            more: Further columns, shape (rows,).
        """
        folder.mkdir(parents=True)
        numbers = range(first, first + rows)
        cells = [self.cells[number % len(self.cells)] for number in numbers]
        return self.lay({"id": list(map(self.ids, numbers)), "x": cells, **more}, folder)

    def means(self, rows: int, first: int = 0) -> dict[Any, Any]:
        """By ID, what the cells of those rows mean."""
        there = range(first, first + (rows // 2 if self.half else rows) * bool(self.meaning))
        people = map(self.means_ids or self.ids, there)
        return dict(zip(people, (self.meaning[n % len(self.meaning)] for n in there), strict=True))

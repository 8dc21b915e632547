"""What the built-in suites expect, judged by counts of blocks as Great Expectations would.

A property test holds both against each other on generated tables.
"""

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.quality.cells import Cells
from opboost_ops.quality.gathering import Expectation, Repeated, is_mostly
from opboost_ops.quality.indicators import INDICATORS
from opboost_ops.quality.report import Result


class Verdict:
    """What is kept of the blocks for one expectation, and the result in the end.

    Args:
        expectation: Its configuration.
    """

    floats = False

    def __init__(self, expectation: Expectation) -> None:
        self._expectation = expectation
        self.kwargs: dict[str, Any] = dict(expectation["kwargs"])
        self.rows = self.unexpected = self.missing = 0

    def add(self, cells: Cells) -> None:
        """Look at a block's cells of the column; at any column's for the whole table."""
        self._look(cells)
        self.rows += cells.rows
        self.missing += cells.missing

    def result(self) -> Result:
        """What Great Expectations says of the whole."""
        return self._judged()

    def _judged(self) -> Result:
        success = is_mostly(self.rows, self.unexpected, self.missing, self._mostly)
        return self._told(success, self.rows, self.unexpected, self.missing)

    def _look(self, cells: Cells) -> None:
        """What else is to be counted."""

    @property
    def _mostly(self) -> float:
        return float(self.kwargs.get("mostly", 1))

    def _told(
        self,
        success: bool,
        rows: int | None = None,
        unexpected: int | None = None,
        missing: int | None = None,
    ) -> Result:
        """A result, its arguments as Great Expectations tells them."""
        arguments = {name: value for name, value in self.kwargs.items() if value is not None}
        column = str(arguments.pop("column", ""))
        mostly = arguments.pop("mostly", 1)
        arguments = ({} if mostly == 1 else {"mostly": mostly}) | arguments
        if self.floats:
            bounds = ("min_value", "max_value")
            arguments |= {name: float(arguments[name]) for name in bounds if name in arguments}
        return Result(
            expectation=self._expectation["type"],
            column=column,
            indicator=self._expectation.get("indicator", ""),
            arguments=arguments,
            success=success,
            evaluated=True,
            rows=rows,
            unexpected=unexpected,
            missing=missing,
        )


class Height(Verdict):
    """How many rows there are."""

    def _judged(self) -> Result:
        return self._told(self.rows == self.kwargs["value"])


class Exists(Verdict):
    """A column is there."""

    def _judged(self) -> Result:
        return self._told(True)


class NotNull(Verdict):
    """No value is missing, but for some."""

    def _look(self, cells: Cells) -> None:
        self.unexpected += cells.missing

    def _judged(self) -> Result:
        success = is_mostly(self.rows, self.unexpected, 0, self._mostly)
        return self._told(success, self.rows, self.unexpected)


class Type(Verdict):
    """pandas would keep the column in one of some types."""

    def __init__(self, expectation: Expectation, kind: pa.DataType) -> None:
        super().__init__(expectation)
        self._kind = kind

    def _judged(self) -> Result:
        name = str(np.dtype(self._kind.to_pandas_dtype()))
        if self.missing and pa.types.is_integer(self._kind):
            name = "float64"
        return self._told(name in self.kwargs["type_list"])


class Extreme(Verdict):
    """The least value, or the greatest one, is within bounds."""

    floats = True

    def __init__(self, expectation: Expectation, which: int) -> None:
        super().__init__(expectation)
        self._which = (min, max)[which]
        self._place = which
        self._found: Any = None

    def _look(self, cells: Cells) -> None:
        if cells.extremes is not None:
            found = cells.extremes[self._place]
            self._found = found if self._found is None else self._which(self._found, found)

    def _judged(self) -> Result:
        least, greatest = self.kwargs["min_value"], self.kwargs["max_value"]
        return self._told(self._found is not None and least <= self._found <= greatest)


class Between(Verdict):
    """Values are within bounds, but for some."""

    floats = True

    def _look(self, cells: Cells) -> None:
        self.unexpected += cells.outside(
            float(self.kwargs["min_value"]), float(self.kwargs["max_value"])
        )


class DifferentValues(Verdict):
    """So many values differ; no more are kept than decide it."""

    def __init__(self, expectation: Expectation) -> None:
        super().__init__(expectation)
        self._most = self.kwargs.get("max_value")
        self._enough = max(self.kwargs["min_value"], (self._most or 0) + 1)
        self._found: pl.Series | None = None

    def _look(self, cells: Cells) -> None:
        if self._found is not None and len(self._found) >= self._enough:
            return
        found = cells.different(self._enough)
        if self._found is not None:
            # Integers of a block with gaps are floats.
            kinds = (self._found.dtype, found.dtype)
            both = [self._found, found]
            if kinds[0] != kinds[1] and found.dtype.is_numeric():
                both = [part.cast(pl.Float64) for part in both]
            found = pl.concat(both).unique().head(self._enough)
        self._found = found

    def _judged(self) -> Result:
        count = 0 if self._found is None else len(self._found)
        return self._told(
            self.kwargs["min_value"] <= count and (self._most is None or count <= self._most)
        )


class Lengths(Verdict):
    """Texts are not shorter than they may be."""

    def _look(self, cells: Cells) -> None:
        lengths = cells.present.str.len_chars()
        self.unexpected += int((lengths < self.kwargs["min_value"]).sum())


class InSet(Verdict):
    """Values are some of those that are declared."""

    def _look(self, cells: Cells) -> None:
        found, known = cells.compared, self.kwargs["value_set"]
        if found.dtype.is_numeric():
            inside = int(np.count_nonzero(np.isin(found.to_numpy(), known)))
        else:
            inside = int(found.is_in(known).sum())
        self.unexpected += len(found) - inside


class Unique(Verdict):
    """No two rows have the same value."""

    def __init__(self, expectation: Expectation, repeated: Repeated) -> None:
        super().__init__(expectation)
        self._repeated = repeated
        self._only: Cells | None = None

    def _look(self, cells: Cells) -> None:
        if not self.rows:
            self._only = cells
        elif self._only is not None:
            self._repeated.add(self._only.present)
            self._only = None
        if self._only is None:
            self._repeated.add(cells.present)

    def _judged(self) -> Result:
        if self._only is not None:
            values = self._only.compared
        else:
            values = pl.Series("", self._repeated.table().column(0))
        if values.n_unique() != len(values):
            self.unexpected = int(values.is_duplicated().sum())
        return super()._judged()


class Named(Verdict):
    """Values, as an indicator names them, are declared ones; each is named once."""

    def __init__(self, expectation: Expectation) -> None:
        super().__init__(expectation)
        self._indicator = INDICATORS[expectation["indicator"]]
        self._counts: list[pl.DataFrame] = []

    def _look(self, cells: Cells) -> None:
        self._counts.append(cells.by_name())

    def _judged(self) -> Result:
        counts = pl.concat(self._counts).group_by("value").agg(pl.col("rows").sum())
        values = counts.get_column("value")
        names = self._indicator.compute(values, self._indicator.gather([values]))
        known = names.is_in(self.kwargs["value_set"])
        rows = counts.get_column("rows")
        # A number that is too great for an integer has no name, and counts as missing.
        self.missing += int(rows.filter(names.is_null()).sum())
        self.unexpected = int(rows.filter(~known).sum())
        return super()._judged()


class NotANumber(Verdict):
    """Every value is a number."""

    def _look(self, cells: Cells) -> None:
        # Those are no missing values here.
        self.missing -= cells.nans
        self.unexpected += cells.nans


class RankGap(Verdict):
    """Every rank from 1 to the highest is there."""

    def __init__(self, expectation: Expectation) -> None:
        super().__init__(expectation)
        self._ranks: dict[float, int] = {}

    def _look(self, cells: Cells) -> None:
        for rank, rows in zip(*(part.tolist() for part in cells.counts), strict=True):
            self._ranks[rank] = self._ranks.get(rank, 0) + rows

    def _judged(self) -> Result:
        ranks = self._ranks
        gaps = sum(n for rank, n in ranks.items() if rank != 1 and rank - 1 not in ranks)
        self.unexpected += gaps + self.missing
        self.missing = 0
        return super()._judged()

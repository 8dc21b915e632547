"""A table's profile: one row per declared column, measured in one streaming pass."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from opboost_ops.quality.suites import Declared
from opboost_ops.tables.columns import TEXTS, holds_numbers
from opboost_ops.tables.spill.arrays import Scratch
from opboost_ops.tables.spill.parts import SpillPartitions
from opboost_ops.tables.spill.tables import Blocks

#: Columns of a profile with their descriptions. Inapplicable measures are null.
COLUMNS = {
    "column": "its name",
    "role": "what it is to the boundary, such as id, released, own, label, rank",
    "usable": "whether the table has it, with a type that can hold what is declared",
    "rows": "rows of the table",
    "missing": "rows without a value, or with NaN",
    "missing_share": "their share of the rows",
    "gaps": "rows without a value where each row needs one",
    "distinct": "different values; 100 stands for 100 or more",
    "classes": "different values of a label of classes",
    "repeated": "rows with an ID that another row has, too",
    "empty": "rows with an empty text as ID",
    "not_finite": "rows with an infinite number; in predictions and scores also with NaN",
    "outside": "rows with a value outside the declared bounds",
    "outside_share": "their share of the rows that have a value",
    "undeclared": "rows with a value that is not declared",
    "unused_ranks": "ranks from 1 to the highest that no row has",
    "minimum": "the least number",
    "maximum": "the greatest number",
    "mean": "the mean of the numbers",
}

#: Columns of a profile that show values of the table, as opposed to counts.
VALUES = ("minimum", "maximum", "mean")

_MOST_DISTINCT = 100

#: Roles in which NaN is a fault, not a missing value.
_COMPUTED = ("prediction", "threshold", "score")

#: Number of values at the start of a block that usually contain all distinct ones.
_HEAD = 1024

#: Number of partitions of hashes on disk, a power of two.
_PARTITIONS = 256


def profile(
    columns: Sequence[Declared], read: Blocks, spill: Scratch | None = None
) -> list[dict[str, Any]]:
    """Measure a table.

    Args:
        columns: Declarations of the columns to measure.
        read: Reads the table.
        spill: Holds hashes of IDs on disk if they are too many for memory.

    Returns:
        One row per column, with the keys of `COLUMNS`.
    """
    stream = read(())
    block = next(stream)
    schema, rows = block.schema, 0
    measured = {
        each.column: _Column(each, schema[each.column], read, spill)
        for each in columns
        if each.column in schema and not each.absent
    }
    while True:
        rows += block.height
        _add(block, measured)
        del block  # Free memory before the next one is read.
        if (following := next(stream, None)) is None:
            break
        block = following
        del following
    return [_row(each, measured.get(each.column), rows) for each in columns]


def _row(declared: Declared, column: "_Column | None", rows: int) -> dict[str, Any]:
    row = dict.fromkeys(COLUMNS) | {"column": declared.column, "role": declared.role}
    if declared.absent:
        return row
    row |= {"usable": False, "rows": rows}
    return row if column is None else row | column.measures(rows)


def _add(block: pl.DataFrame, columns: Mapping[str, "_Column"]) -> None:
    frame = block.select(list(columns) or block.columns[:1])
    named = {
        f"{i} {name}": expression
        for i, column in enumerate(columns.values())
        for name, expression in column.expressions().items()
    }
    values = frame.select(**named).row(0, named=True) if named else {}
    for i, (name, column) in enumerate(columns.items()):
        of = {key: values[f"{i} {key}"] for key in column.expressions()}
        column.add(of, frame.get_column(name))


class _Column:
    """Measures of a column, added block by block; NaN is a missing value, as in pandas."""

    def __init__(
        self, declared: Declared, kind: pl.DataType, read: Blocks, spill: Scratch | None
    ) -> None:
        self._declared, self._kind = declared, kind
        #: An all-null column counts as numeric.
        self._numeric = holds_numbers(kind)
        self._fits = {
            "any": not kind.is_nested(),
            "number": self._numeric,
            "integer": kind.is_integer(),
        }[declared.type]
        self._counts = dict.fromkeys(("nulls", "nans", "infinite", "outside", "empty"), 0)
        self._undeclared = [0, 0, 0]
        self._sum = 0.0
        self._least: Any = None
        self._greatest: Any = None
        self._distinct: set[Any] = set()
        self._most = math.inf if declared.dense else _MOST_DISTINCT
        self._repeats = Repeats(declared.column, read, spill) if declared.unique else None

    def expressions(self) -> dict[str, pl.Expr]:
        """Return the expressions to evaluate on each block."""
        values = pl.col(self._declared.column)
        expressions = {"nulls": values.null_count()}
        if self._kind.is_float():
            expressions["nans"] = values.is_nan().sum()
        if self._declared.role == "id" and self._kind in TEXTS:
            expressions["empty"] = (values.cast(pl.String).str.len_bytes() == 0).sum()
        if self._numeric and self._declared.role != "id":
            expressions |= {"least": values.min(), "greatest": values.max(), "sum": values.sum()}
        if self._declared.values and self._fits:
            expressions |= {f"undeclared {i}": each for i, each in enumerate(self._not_declared())}
        return expressions

    def add(self, values: Mapping[str, Any], cells: pl.Series) -> None:
        """Add a block's evaluated expressions and its cells."""
        for name in self._counts.keys() & values.keys():
            self._counts[name] += int(values[name] or 0)
        for i in range(len(self._undeclared)):
            self._undeclared[i] += values.get(f"undeclared {i}") or 0
        least, greatest = values.get("least"), values.get("greatest")
        if least is not None and greatest is not None and least == least:
            self._least = least if self._least is None else min(self._least, least)
            self._greatest = greatest if self._greatest is None else max(self._greatest, greatest)
            total = _present(cells).sum() if values.get("nans") else values["sum"]
            self._sum += float(total)
            if math.isinf(least) or math.isinf(greatest):
                self._counts["infinite"] += int(cells.is_infinite().sum())
            self._look_outside(cells, least, greatest)
        self._look_for_different(cells, least, greatest)
        if self._repeats:
            self._repeats.add(cells)

    def measures(self, rows: int) -> dict[str, Any]:
        """Return the column's measures over all blocks."""
        declared, counts = self._declared, self._counts
        missing = counts["nulls"] + counts["nans"]
        present = rows - missing
        row: dict[str, Any] = {
            "usable": self._fits,
            "missing": missing,
            "missing_share": missing / rows if rows else 0.0,
            "distinct": min(len(self._distinct), _MOST_DISTINCT),
        }
        if declared.required:
            row["gaps"] = missing
        if declared.role == "label":
            row["classes"] = row["distinct"]
        if self._repeats:
            row["repeated"] = self._repeats.count()
        if declared.role == "id":
            return row | {"empty": counts["empty"]}
        if declared.values and self._fits:
            as_whole, as_named, broken = self._undeclared
            row["undeclared"] = as_named if broken else as_whole
        if declared.dense:
            row["unused_ranks"] = self._unused_ranks()
        if self._numeric:
            nans = counts["nans"] if declared.role in _COMPUTED else 0
            row["not_finite"] = counts["infinite"] + nans
            row |= {"minimum": _finite(self._least), "maximum": _finite(self._greatest)}
            row["mean"] = _finite(self._sum / present) if present else None
        if self._numeric and declared.bounds:
            row["outside"] = counts["outside"]
            row["outside_share"] = counts["outside"] / present if present else 0.0
        return row

    def _look_outside(self, cells: pl.Series, least: Any, greatest: Any) -> None:
        """Count numbers outside the bounds, if the block's range exceeds them."""
        bounds = self._declared.bounds
        if bounds is None or (least >= bounds[0] and greatest <= bounds[1]):
            return
        if self._kind.is_integer():
            # Compare as integers, with bounds clipped to the range of the type.
            kind = np.iinfo(str(self._kind).lower())
            bounds = math.ceil(max(bounds[0], kind.min)), math.floor(min(bounds[1], kind.max))
        else:
            cells = _present(cells.cast(pl.Float64))
        self._counts["outside"] += int((~cells.is_between(*bounds)).sum())

    def _look_for_different(self, cells: pl.Series, least: Any, greatest: Any) -> None:
        if self._kind.is_nested():
            return
        for part in (cells.head(_HEAD), cells):
            count = len(self._distinct)
            if count >= self._most or self._all_known(least, greatest):
                return
            different = _present(part).unique()
            if not self._declared.dense:
                # Taking this many guarantees enough new ones, whichever are already known.
                different = different.head(_MOST_DISTINCT + count)
            self._distinct.update(different.to_list())

    def _all_known(self, least: Any, greatest: Any) -> bool:
        """Return True if all integers between the least and the greatest are known already."""
        if least is None or not self._kind.is_integer():
            return False
        count = int(greatest) - int(least) + 1
        return count <= len(self._distinct) and self._distinct.issuperset(
            range(int(least), int(greatest) + 1)
        )

    def _unused_ranks(self) -> int:
        highest = max(self._distinct, default=1)
        # A rank below 1 is counted as outside the bounds instead.
        return max(int(highest), 1) - len({rank for rank in self._distinct if rank >= 1})

    def _not_declared(self) -> list[pl.Expr]:
        """Return expressions that count undeclared values.

        For floating-point labels these are the count as integers, the count as they are, and the
        number of fractional values, which decides between the two.
        """
        declared, values = self._declared.values, pl.col(self._declared.column)
        present = values.is_not_null()
        if self._kind.is_float():
            present &= values.is_not_nan()
        if not all(isinstance(each, str) for each in declared):
            numbers = [float(each) for each in declared if not isinstance(each, str)]
            declared_number = (
                values.cast(pl.Float64).is_in(numbers) if self._numeric else pl.lit(False)
            )
            return [(present & ~declared_number).sum()]
        names = list(declared)
        if self._kind.is_float() and self._declared.role == "label":
            # Classes are named as integers if all values are whole.
            whole = values.fill_nan(None).cast(pl.Int64, strict=False)
            matches = [n.cast(pl.String).is_in(names).fill_null(False) for n in (whole, values)]
            broken = present & (values != values.floor())
            return [(present & ~matches[0]).sum(), (present & ~matches[1]).sum(), broken.sum()]
        if self._kind == pl.Boolean and self._declared.role == "label":
            values = values.cast(pl.Int8)
        if self._kind.is_integer():
            # Comparing texts is slow, so compare integers.
            texts = pl.Series(names, dtype=pl.String)
            numbered = texts.cast(self._kind, strict=False)
            same = numbered.filter(numbered.cast(pl.String) == texts)
            return [(present & ~values.is_in(same.implode())).sum()]
        return [(present & ~values.cast(pl.String).is_in(names)).sum()]


def _present(cells: pl.Series) -> pl.Series:
    cells = cells.drop_nulls()
    return cells.drop_nans() if cells.dtype.is_float() else cells


def _finite(value: Any) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


class Repeats:
    """Counts the rows that share their value with another row.

    Args:
        column: Name of the column.
        read: Reads the table: rows with equal hashes are read again and compared.
        spill: Holds hashes on disk if they are too many for memory; None keeps all in memory.
    """

    def __init__(self, column: str, read: Blocks, spill: Scratch | None = None) -> None:
        self._column, self._read, self._spill = column, read, spill
        self._hashes: list[np.ndarray] = []
        self._spilled: SpillPartitions | None = None

    def add(self, values: pl.Series) -> None:
        """Add a block's values."""
        self._hashes.append(_present_values(values).hash().to_numpy())
        if self._spill and not self._spill.holds(sum(map(len, self._hashes))):
            self._spilled = self._spilled or SpillPartitions(
                self._spill, np.dtype(np.uint64), _PARTITIONS
            )
            self._partition(self._spilled)

    def _partition(self, spilled: SpillPartitions) -> None:
        for hashes in self._hashes:
            spilled.add(hashes // np.uint64(2**64 // _PARTITIONS), hashes)
        self._hashes = []

    def count(self) -> int:
        """Return the number of rows that share their value with another row."""
        partitions: Iterable[np.ndarray]
        if self._spilled:
            self._partition(self._spilled)
            partitions = self._spilled
        else:
            partitions = [np.concatenate(self._hashes)]
        self._hashes, repeats = [], []
        for hashes in partitions:
            # Polars sorts twice as fast as NumPy.
            hashes = pl.Series(hashes).sort().to_numpy()
            repeats.append(np.unique(hashes[1:][hashes[1:] == hashes[:-1]]))
        repeated = pl.Series(np.concatenate(repeats))
        if not len(repeated):
            return 0
        suspects = []
        for block in self._read((self._column,)):
            values = _present_values(block.to_series())
            suspects.append(values.filter(values.hash().is_in(repeated.implode())))
        return int(pl.concat(suspects).is_duplicated().sum())


def _present_values(values: pl.Series) -> pl.Series:
    values = values.drop_nulls()
    if values.dtype in (pl.Categorical, pl.Enum):
        # Blocks may encode their categories differently.
        return values.cast(pl.String)
    return values.drop_nans() if values.dtype.is_float() else values

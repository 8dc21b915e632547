"""How an artifact's rows are dealt to files: by public counts alone, so that there is one form.

A table goes in one file as long as it has no more than `CELLS` cells. A larger one goes in spans of
rows, each a Parquet file of its own; a long list of keyed digests likewise.

    >>> part_rows("ranks", 1_000_000, 10), part_rows("ranks", 4_000_000, 10)
    ([1000000], [1677721, 1677721, 644558])
    >>> digest_parts(2_500_000)
    [1048576, 1048576, 402848]
"""

from opboost_ops.exchange.files import MOST_PARTS
from opboost_ops.exchange.manifest import Kind

#: Cells of one file at most: of domains up to 255 values that many bytes, unpacked.
CELLS = 1 << 24

#: Keyed digests in one file at most, of 10 bytes each.
DIGESTS = 1 << 20

#: Places or look-up tags of private alignment in one file at most, of up to 16 bytes each.
LOOKS = 1 << 22


def part_rows(kind: Kind, rows: int, columns: int) -> list[int]:
    """How many rows each file of a table has.

    Args:
        kind: The artifact's.
        rows: It says that it has.
        columns: How many features it has.
    """
    if kind == "alignment":
        return _dealt(rows, LOOKS)
    # Routes of a party whose features no tree uses have no column, and one file without rows.
    return _dealt(rows, max(CELLS // columns, 1)) if columns else [rows]


def digest_parts(rows: int) -> list[int]:
    """How many keyed digests each file has.

    Args:
        rows: Of them all.
    """
    return _dealt(rows, DIGESTS)


def _dealt(rows: int, most: int) -> list[int]:
    most = max(most, -(-rows // MOST_PARTS))
    return [min(most, rows - begin) for begin in range(0, rows, most)] or [0]

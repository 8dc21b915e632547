"""Types of raw columns, as messages may show them."""

import polars as pl

from opboost_ops.errors import ContractError


def type_name(kind: pl.DataType) -> str:
    """The name of a type, without what is inside it.

    The whole of it may hold values: the categories of an Enum, the fields of a Struct.

    Args:
        kind: Of a raw column.

        >>> type_name(pl.List(pl.Enum(["a person's name"])))
        'List'
    """
    return kind.base_type().__name__


def require_readable(party: str, kinds: dict[str, pl.DataType]) -> None:
    """Refuse types that Parquet has no place for, although polars writes them.

    Args:
        party: Whose columns they are.
        kinds: By column.

    Raises:
        ContractError: Integers of 128 bits.
    """
    wide = [name for name, kind in kinds.items() if kind in (pl.Int128, pl.UInt128)]
    if wide:
        raise ContractError(
            f"The table of {party} keeps {', '.join(wide)} as 128-bit integers.",
            "Write them as 64-bit integers, or as strings.",
        )

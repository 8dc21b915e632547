"""What a listing prints for programs: one line of JSON, or CSV for a spreadsheet."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from opboost_ops.errors import ConfigError

if TYPE_CHECKING:
    from opboost_ops.display.blocks import Value


def one_form(as_json: bool, as_csv: bool) -> None:
    """Check that at most one form is asked for.

    Args:
        as_json: Whether ``--json`` was.
        as_csv: Whether ``--csv`` was.

    Raises:
        ConfigError: Both were.
    """
    if as_json and as_csv:
        raise ConfigError("--json and --csv exclude each other.", "Give one of them.")


def print_csv(heads: Iterable[str], rows: "Iterable[Mapping[str, Value]]") -> None:
    """Print a table as CSV; what a row lacks is an empty cell.

    Args:
        heads: Its columns.
        rows: Cells by column.
    """
    from opboost_ops.display.spreadsheets import csv_text

    heads = list(heads)
    print(csv_text(heads, ([row.get(head) for head in heads] for row in rows)), end="")

"""Tables of the report, in Markdown."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table.

    Args:
        heads: Of the columns.
        rows: Cells.
    """
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def spread(line: Mapping[str, Any], figure: str, digits: int = 4) -> str:
    """A mean with its standard deviation over seeds.

    Args:
        line: One of `experiment.summary`.
        figure: Which.
        digits: After the point.
    """
    if line.get(figure) is None:
        return ""
    deviation = f" ± {line[f'{figure}_sd']:.{digits}f}" if line["seeds"] > 1 else ""
    return f"{line[figure]:.{digits}f}{deviation}"

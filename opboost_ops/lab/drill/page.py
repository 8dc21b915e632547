"""What a drill has found, as a table."""

import re
from collections.abc import Sequence

from opboost_ops.errors import ConfigError
from opboost_ops.lab.drill.drill import Blow

_PLACE = re.compile(r"(<!-- drill -->\n).*?(<!-- /drill -->)", re.DOTALL)

_HEADS = ("kill", "party", "stage", "who was killed", "after (s)", "tries", "run (s)", "afterwards")


def told(blows: Sequence[Blow]) -> str:
    """A table in Markdown, and above it how many ended well.

    Args:
        blows: In their order.
    """
    well = sum(not blow.problems for blow in blows)
    lines = [
        f"{len(blows)} kills, {well} correct endings.",
        "",
        "| " + " | ".join(_HEADS) + " |",
        "| " + " | ".join("---" for _ in _HEADS) + " |",
    ]
    for blow in blows:
        cells = (
            str(blow.number),
            blow.party,
            blow.stage,
            blow.whom,
            f"{blow.delay:.2f}",
            str(blow.tries),
            f"{blow.seconds:.0f}",
            "; ".join(blow.problems) or "all well",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def written(document: str, blows: Sequence[Blow]) -> str:
    """A document with the table between its markers.

    Args:
        document: Its text.
        blows: In their order.

    Raises:
        ConfigError: It has no such markers.
    """
    if not _PLACE.search(document):
        raise ConfigError(
            "The page has no place for the table.",
            "Put <!-- drill --> and <!-- /drill --> into it, each on a line of its own.",
        )
    return _PLACE.sub(lambda found: f"{found[1]}{told(blows)}{found[2]}", document)

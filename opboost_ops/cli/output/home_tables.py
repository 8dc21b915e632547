"""Tables about a party's own rows and columns, in print: at home only."""

from collections.abc import Mapping, Sequence
from typing import Any

from opboost_ops.cli.output.printing import print_line, print_table
from opboost_ops.extras.lab.scales import ScaleLine
from opboost_ops.quality.domain_filling import Filling

#: Most numbers of rows that are printed.
_NUMBERED = 10


def print_fillings(party: str, found: Sequence[Filling]) -> None:
    """Print a small histogram of each column, and what is wrong with its scale.

    Args:
        party: Whose columns they are.
        found: How they fill their domains.
    """
    if not found:
        return
    title = f"How the rows of {party} fill the domain (stays at home)"
    rows = (
        (one.feature, one.scale, f"|{one.histogram}|", f"{one.holding} of {len(one.counts)} values")
        for one in found
    )
    print_table(title, ("feature", "scale", "lowest to highest value", "95 % of rows in"), rows)
    for one in found:
        if one.warning:
            print_line(one.warning, "yellow")


def print_scales(name: str, lines: Sequence[ScaleLine]) -> None:
    """Print a column's losses by kind of cells, at one loss of a step.

    Args:
        name: The feature.
        lines: Of `extras.lab.scales`.
    """
    near = f"{lines[0].near:.4g}" if lines else "near"
    heads = ("cells", "edges cost", "loss(1)", f"loss at {near}", "loss(R-L)", "narrowest cell")
    rows = []
    for line in lines:
        losses = (line.edges, line.loss_1, line.loss_near, line.loss_whole)
        kept = "" if line.kept is None else f"{line.kept:.3f}"
        cells = (line.cells, *(f"{loss:.3f}" for loss in losses), f"{line.narrowest:.4g}", kept)
        rows.append(cells)
    print_table(f"{name}: cells at one loss(1), edges included", (*heads, "order kept"), rows)


def print_people(party: str, purpose: str, rules: Sequence[str], found: Mapping[str, Any]) -> None:
    """Print how many values each rule of an ID changes, and which rows have one ID.

    Args:
        party: Whose table it is.
        purpose: Which of its tables.
        rules: Of the federation's IDs, in order.
        found: As `tables.people.write_ids` says.
    """
    whose = f"the {purpose} table of {party}"
    if "changed" in found:
        print_line(f"What the rules of the ID change in {whose} (stays at home):")
        rows = (
            (
                part,
                *(f"{changed.get(rule, 0):,}" for rule in rules),
                f"{found['missing'].get(part, 0):,}",
            )
            for part, changed in found["changed"].items()
        )
        print_table("", ("column", *rules, "without a value"), rows)
        repeated, numbers = found["repeated"], found["repeated_rows"][:_NUMBERED]
        more = ", ..." if repeated > len(numbers) else ""
        listed = f" (rows {', '.join(map(str, numbers))}{more})" if numbers else ""
        print_line(
            f"Of {found['rows']:,} rows of {whose} {repeated:,} have an ID that another row has, "
            f"too{listed}; {found['several_spellings']:,} IDs are written in several ways."
        )
    if "people" in found:
        people, rows_of = found["people"], found["rows"]
        print_line(f"Aggregates make {people:,} people of {rows_of:,} rows of {whose}.")

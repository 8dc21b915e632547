"""Terminal output: tables, blocks, and the progress of a run."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as Bars

from opboost_ops.reports.display.blocks import Block, Cell, Facts, Fold, Heading, Note, Table
from opboost_ops.reports.display.tables import plain, rich_table
from opboost_ops.reports.outcomes import outcome_words

if TYPE_CHECKING:
    from opboost_ops.extras.lab.advice import ScaleLine
    from opboost_ops.quality.domain_filling import Filling


#: Table width outside a terminal, so that nothing is folded in a pipe or file.
_PIPE_WIDTH = 400

#: Labels of the rows of `metrics`.
MODES = {
    "centralised": "all raw columns in one place",
    "label_holder_alone": "label holder alone",
    "federated": "federated, exact values (as mode routed)",
    "federated_desensitised": "federated, mode desensitised",
    "federated_routed": "federated, mode routed",
    "federated_local": "federated, mode local",
}

#: Maximum number of row numbers that are printed.
_MAX_ROW_NUMBERS = 10


def console() -> Console:
    """Return a console as wide as the terminal; in a pipe wide enough to fold nothing."""
    terminal = Console()
    narrow = terminal.is_terminal or "COLUMNS" in os.environ
    return terminal if narrow else Console(width=_PIPE_WIDTH)


def print_table(title: str, heads: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a table whose cells are folded, never cut off.

    Args:
        title: The title.
        heads: The column heads.
        rows: Cells by row; a row may be shorter than the heads.
    """
    texts = (zip_longest(heads, row, fillvalue="") for row in rows)
    cells = tuple(tuple(Cell(str(cell)) for _, cell in row) for row in texts)
    console().print(rich_table(Table("", title, tuple(heads), cells)))


def print_line(text: object, style: str = "") -> None:
    """Print a line without interpreting markup or control characters in it.

    Args:
        text: The line.
        style: A style of rich, such as ``red``.
    """
    console().print(plain(text, style), soft_wrap=True)


def print_blocks(blocks: Iterable[Block]) -> None:
    """Print the blocks of a page or document, except for figures; nothing is cut off."""
    for block in blocks:
        if isinstance(block, Table):
            console().print(rich_table(block))
            for line in filter(None, (block.note, block.said_once)) if block.rows else ():
                print_line(line, "dim")
        elif isinstance(block, Facts):
            for fact in block.facts:
                hint = f" ({fact.hint})" if fact.hint else ""
                print_line(f"{fact.label}: {fact.value}{hint}")
        elif isinstance(block, Note):
            print_line(" ".join(filter(None, (block.text, block.remedy))))
            for line in block.lines:
                print_line(f"- {line}")
        elif isinstance(block, Heading):
            print_line(block.text, "bold")
        elif isinstance(block, Fold):
            print_blocks([Heading(block.title), *block.blocks])


class Progress:
    """Shows started and finished stages on stderr.

    A context manager; call it with a party and an event.
    """

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bars = Bars(
            TextColumn("[bold]{task.fields[party]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> "Progress":
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def __call__(self, party: str, event: dict[str, Any]) -> None:
        """Show an event: ``started``, ``progress``, ``waits``, ``finished`` or ``failed``.

        Each event has a ``stage``. A party's first event may have ``of``, its number of stages.
        """
        if party not in self._tasks:
            total = event.get("of")
            self._tasks[party] = self._bars.add_task("", total=total, party=party)
        if event["event"] == "finished":
            self._bars.advance(self._tasks[party])
        self._bars.update(self._tasks[party], description=event.get("text", event["stage"]))
        if event["event"] == "waits" or (
            not self._console.is_terminal and event["event"] == "progress"
        ):
            self._console.print(event["text"], soft_wrap=True)
        if not self._console.is_terminal and event["event"] == "finished":
            # Known only if the parties' own processes report it, not through Airflow.
            took = f" ({event['spent'].get('seconds', 0.0):.3f} s)" if "spent" in event else ""
            self._console.print(f"{party}: {event['stage']}{took}")


@contextmanager
def counting(what: str, *, in_bytes: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on stderr, on a terminal only.

    Args:
        what: The counted things.
        in_bytes: True if bytes are counted.

    Yields:
        A function that takes the number that are done and the total.
    """
    console = Console(stderr=True)
    counted = (DownloadColumn(), TransferSpeedColumn()) if in_bytes else (MofNCompleteColumn(),)
    bars = Bars(
        TextColumn(what),
        BarColumn(),
        *counted,
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    with bars:
        task = bars.add_task(what, total=None)
        yield lambda done, whole: bars.update(task, completed=done, total=whole)


def print_vertical(result: Mapping[str, Any]) -> None:
    """Print metrics, traffic and durations of a run of vertical learning.

    Args:
        result: The JSON document of `opboost run --json`.
    """
    metrics = {mode: values for mode, values in result["metrics"].items() if values}
    names = sorted({name for values in metrics.values() for name in values})
    title = f"{result['federation']}, run {result['run']}: held-out rows"
    rows = (
        (text, *(f"{metrics[mode][name]:.4f}" for name in names))
        for mode, text in MODES.items()
        if mode in metrics
    )
    print_table(title, ("trained on", *names), rows)
    print_line(outcome_words(result["outcome"]))
    sizes = result["bytes"]
    print(
        f"The feature holders sent {sizes['feature_holders_total']:,} bytes for training "
        f"(entropy of the ranks: {sizes['ranks_entropy']:,.0f}), {sizes['holdout']:,} for the "
        f"held-out rows; alignment took {sizes['align']:,}."
    )
    print(f"Model: {result['model']}")


def print_horizontal(result: Mapping[str, Any]) -> None:
    """Print metrics by party, traffic, durations and the model's path of horizontal learning.

    Args:
        result: The JSON document of `opboost run --json`.
    """
    names = sorted({n for values in result["metrics"].values() for n in values["federated_local"]})
    has_baseline = any("label_holder_alone" in values for values in result["metrics"].values())
    trained = ("own rows", "all rows") if has_baseline else ("all rows",)
    title = f"{result['federation']}, run {result['run']}: each party's held-out rows"
    rows = []
    for party, values in result["metrics"].items():
        # A differentially private run trains no model of a party's own rows.
        both = [values[of] for of in ("label_holder_alone", "federated_local") if of in values]
        rows.append((party, *(f"{f[name]:.4f}" for name in names for f in both)))
    print_table(title, ("party", *(f"{name}, {of}" for name in names for of in trained)), rows)
    print(
        f"{result['rows']:,} training rows of {len(result['metrics'])} parties. Each sent "
        f"{result['messages']:,} messages; all of them together {result['bytes']:,} bytes, and "
        f"{result['sums']:,} sums became known. Training took {result['training']:.2f} s."
    )
    if "private" in result:
        private = result["private"]
        print(
            f"Each party's rows were charged (epsilon {private['epsilon']:.4f}, delta "
            f"{private['delta']:g}) for a row added or removed."
        )
    print(f"Model: {result['model']}")


def print_fillings(party: str, fillings: Sequence["Filling"]) -> None:
    """Print a small histogram of each column, and warnings about its scale.

    Args:
        party: The party that has the columns.
        fillings: Use of the domain, by column.
    """
    if not fillings:
        return
    title = f"How the rows of {party} fill the domain (stays at home)"
    rows = (
        (
            filling.feature,
            filling.scale,
            f"|{filling.histogram}|",
            f"{filling.holding} of {len(filling.counts)} values",
        )
        for filling in fillings
    )
    print_table(title, ("feature", "scale", "lowest to highest value", "95 % of rows in"), rows)
    for filling in fillings:
        if filling.warning:
            print_line(filling.warning, "yellow")


def print_scales(name: str, lines: Sequence["ScaleLine"]) -> None:
    """Print a column's losses by kind of cells, at one value of loss(1).

    Args:
        name: The feature.
        lines: Results of `extras.lab.advice`.
    """
    near = f"{lines[0].near:.4g}" if lines else "near"
    heads = ("cells", "edges cost", "loss(1)", f"loss at {near}", "loss(R-L)", "narrowest cell")
    rows = []
    for line in lines:
        losses = (line.edges, line.loss_1, line.loss_near, line.loss_whole)
        order = "" if line.kept is None else f"{line.kept:.3f}"
        cells = (line.cells, *(f"{loss:.3f}" for loss in losses), f"{line.narrowest:.4g}", order)
        rows.append(cells)
    print_table(f"{name}: cells at one loss(1), edges included", (*heads, "order kept"), rows)


def print_people(party: str, purpose: str, rules: Sequence[str], facts: Mapping[str, Any]) -> None:
    """Print how many values each ID rule changes, and which rows share an ID.

    Args:
        party: The party that has the table.
        purpose: ``train`` or ``score``.
        rules: The federation's ID rules, in order.
        facts: Results of `tables.people.write_ids`.
    """
    table = f"the {purpose} table of {party}"
    if "changed" in facts:
        print_line(f"What the rules of the ID change in {table} (stays at home):")
        rows = (
            (
                part,
                *(f"{changed.get(rule, 0):,}" for rule in rules),
                f"{facts['missing'].get(part, 0):,}",
            )
            for part, changed in facts["changed"].items()
        )
        print_table("", ("column", *rules, "without a value"), rows)
        repeated, numbers = facts["repeated"], facts["repeated_rows"][:_MAX_ROW_NUMBERS]
        more = ", ..." if repeated > len(numbers) else ""
        listed = f" (rows {', '.join(map(str, numbers))}{more})" if numbers else ""
        print_line(
            f"Of {facts['rows']:,} rows of {table} {repeated:,} have an ID that another row has, "
            f"too{listed}; {facts['several_spellings']:,} IDs are written in several ways."
        )
    if "people" in facts:
        people, rows_of = facts["people"], facts["rows"]
        print_line(f"Aggregates make {people:,} people of {rows_of:,} rows of {table}.")

"""`opboost datasets`: named tables for experiments."""

from typing import TYPE_CHECKING

import typer

from opboost_ops.cli.arguments import AsCsv, AsJson
from opboost_ops.cli.forms import one_form, print_csv

if TYPE_CHECKING:
    from opboost_ops.datasets.catalogue import Entry

app = typer.Typer(help="Named tables for experiments.", no_args_is_help=True)


@app.callback()
def _commands() -> None:
    """Commands are always named, also while there is only one."""


@app.command("list")
def list_(as_json: AsJson = False, as_csv: AsCsv = False) -> None:
    """What there is: task, size, which rows are held out, which paper uses it, its licence."""
    import json

    from opboost_ops.datasets.catalogue import CATALOGUE

    one_form(as_json, as_csv)
    if as_json or as_csv:
        lines = [_line(name, entry) for name, entry in CATALOGUE.items()]
        if as_csv:
            print_csv(list(lines[0]), lines)
        else:
            print(json.dumps(lines))
        return

    for name, entry in CATALOGUE.items():
        own, others = entry.columns
        print(f"{name}: {entry.title}")
        print(
            f"  {entry.task}, {entry.rows:,} rows, {own} columns of the label holder and {others} "
            f"of others; held out: {entry.split}"
        )
        print(f"  used by: {entry.used_by or 'the demo'}; licence: {entry.licence}")


def _line(name: str, entry: "Entry") -> dict[str, str | int]:
    own, others = entry.columns
    return {
        "name": name,
        "title": entry.title,
        "task": entry.task,
        "rows": entry.rows,
        "columns_of_label_holder": own,
        "columns_of_others": others,
        "held_out": entry.split,
        "used_by": entry.used_by,
        "licence": entry.licence,
    }

"""`opboost datasets`: named tables for experiments."""

from typing import Annotated

import typer

app = typer.Typer(help="Named tables for experiments.", no_args_is_help=True)


@app.command("list")
def list_() -> None:
    """What there is: task, size, which rows are held out, which paper uses it, its licence."""
    from opboost_ops.datasets.catalogue import CATALOGUE

    for name, entry in CATALOGUE.items():
        own, others = entry.columns
        print(f"{name}: {entry.title}")
        print(
            f"  {entry.task}, {entry.rows:,} rows, {own} columns of the label holder and {others} "
            f"of others; held out: {entry.split}"
        )
        print(f"  used by: {entry.used_by or 'the demo'}; licence: {entry.licence}")


@app.command("fetch")
def fetch(name: Annotated[str, typer.Argument(help="One of `opboost datasets list`.")]) -> None:
    """Get a table, from OPBOOST_DATASETS or its public home, and say what it is."""
    from opboost_ops.datasets import load

    dataset = load(name)
    for party, table in dataset.tables.items():
        print(f"{party}: {table.height:,} rows, {table.width} columns")
    print(dataset.notes)

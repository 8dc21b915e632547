"""`opboost datasets`: named tables for experiments."""

from typing import Annotated

import typer

app = typer.Typer(help="Named tables for experiments.", no_args_is_help=True)


@app.command("list")
def list_() -> None:
    """List the names."""
    from opboost_ops.datasets import NAMES
    from opboost_ops.datasets.lenders import NAME

    for name in (*NAMES, NAME):
        print(name)


@app.command("fetch")
def fetch(name: Annotated[str, typer.Argument(help="One of `opboost datasets list`.")]) -> None:
    """Get a table, from OPBOOST_DATASETS or its public home, and say what it is."""
    from opboost_ops.datasets import load

    dataset = load(name)
    for party, table in dataset.tables.items():
        print(f"{party}: {table.height:,} rows, {table.width} columns")
    print(dataset.notes)

"""`opboost evaluate`: the papers' workloads, by one command each."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="The papers' workloads, by one command each.", no_args_is_help=True)


@app.callback()
def _commands() -> None:
    """Commands are always named, also while there is only one."""


@app.command("table5")
def table5(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line on stdout.")] = False,
) -> None:
    """Order preservation by distance: enumerated, and as the argument about partitions has it."""
    import json

    from opboost_ops.evaluation.table5 import table5 as compute

    result = compute()
    if as_json:
        print(json.dumps(result))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title="OpBoost's Table 5: |D| = 100, theta = 10, epsilon = 0.1 (exact / formula)")
    table.add_column("dist")
    for cell in result["rows"][0]["cells"]:
        table.add_column(str(cell["dist"]), justify="right")
    for row in result["rows"]:
        cells = (f"{cell['exact']:.4f}\n{cell['formula']:.4f}" for cell in row["cells"])
        table.add_row(row["method"], *cells)
    console = Console()
    console.print(table)
    for note in result["notes"]:
        console.print(note)


@app.command("figures")
def figures(
    out: Annotated[Path, typer.Option(help="Folder for the pictures.")] = Path("docs/figures"),
) -> None:
    """Draw the pictures of the documents: output laws, loss, order preservation, averaging."""
    from opboost_ops.evaluation.figures import draw

    for path in draw(out):
        print(path)

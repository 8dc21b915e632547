"""`opboost evaluate table5`."""

from opboost_ops.lab.commands.options import Json


def command(
    as_json: Json = False,
) -> None:
    """Order preservation by distance: enumerated, and as the argument about partitions has it."""
    import json

    from opboost_ops.lab.table5 import table5

    result = table5()
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

"""`opboost evaluate month`."""

from pathlib import Path
from typing import Annotated

import typer

from opboost_ops.lab.commands.options import Json


def command(
    dataset: Annotated[str, typer.Option(help="A named table.")] = "adult",
    nights: Annotated[int, typer.Option(help="How many.")] = 30,
    fitting: Annotated[int, typer.Option(help="Releases that a feature's budget allows.")] = 24,
    rows: Annotated[int | None, typer.Option(help="Of the generated table.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Where the picture goes.")] = None,
    as_json: Json = False,
) -> None:
    """Retrain every night while 2 % of the rows change: the charge outside, the cells inside."""
    import json
    import tempfile

    from opboost_ops.cli.progress import counting
    from opboost_ops.datasets import load
    from opboost_ops.lab import month as experiment

    with tempfile.TemporaryDirectory() as folder, counting("nights") as progress:
        table = load(dataset, rows=rows)
        found = experiment.month(table, Path(folder) / "month", nights, fitting, progress)
    if picture is not None:
        experiment.draw(found, picture)
    if as_json:
        print(json.dumps(found))
        return
    from rich.console import Console
    from rich.table import Table

    shown = Table(title=f"{found['party']}.{found['feature']}, budget {found['budget_whole']:g}")
    for head in ("night", "releases", "loss(R-L)", "left", "cells at cap", "bytes", "refused"):
        shown.add_column(head, justify="right")
    for line in found["nights"]:
        shown.add_row(
            str(line["night"]),
            str(line["releases"]),
            f"{line['loss_whole']:.3f}",
            str(line["retrainings_left"]),
            str(line["capped_cells"]),
            f"{sum(line['files'].values()):,}",
            "yes" if line["refused"] else "",
        )
    Console().print(shown)

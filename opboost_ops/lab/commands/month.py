"""`opboost evaluate month`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from opboost_ops.lab.commands.options import Json


def command(
    dataset: Annotated[str, typer.Option(help="A named table.")] = "adult",
    nights: Annotated[int, typer.Option(help="How many.")] = 30,
    fitting: Annotated[int, typer.Option(help="Releases that a feature's budget allows.")] = 24,
    max_changes: Annotated[
        int | None,
        typer.Option(
            help="A cap on changes, with budgets for as many values: an account that ends."
        ),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Of all protected features, with --max-changes.")
    ] = None,
    rows: Annotated[int | None, typer.Option(help="Of the generated table.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Where the picture goes.")] = None,
    as_json: Json = False,
) -> None:
    """Retrain every night while 2 % of the rows change: the charge outside, the cells inside.

    Without --max-changes the budget ends. With it the account does: whole records change, and
    models are trained on what goes and on the values of the day.
    """
    import json
    import tempfile

    from opboost_ops.cli.progress import counting
    from opboost_ops.datasets import load
    from opboost_ops.lab import month as experiment
    from opboost_ops.lab.year import year

    with tempfile.TemporaryDirectory() as folder, counting("nights") as progress:
        table = load(dataset, rows=rows)
        place = Path(folder) / "month"
        if max_changes is None:
            found = experiment.month(table, place, nights, fitting, progress)
        else:
            found = year(table, place, nights, max_changes, progress, epsilon)
    if picture is not None:
        experiment.draw(found, picture)
    if as_json:
        print(json.dumps(found))
        return
    from rich.console import Console
    from rich.table import Table

    shown = Table(title=f"{found['party']}.{found['feature']}, budget {found['budget_whole']:g}")
    last = (
        ("held", "moved", "AUC frozen / unfrozen", "released columns alone")
        if max_changes
        else ("refused",)
    )
    for head in ("night", "draws", "loss(R-L)", "left", "cells at cap", "bytes", *last):
        shown.add_column(head, justify="right")
    for line in found["nights"]:
        if max_changes and "auc" not in line:
            continue
        shown.add_row(
            str(line["night"]),
            str(line["releases"]),
            f"{line['loss_whole']:.3f}",
            "for ever" if line["retrainings_left"] is None else str(line["retrainings_left"]),
            f"{line['capped_cells'] / line['cells']:.1%}" if line["cells"] else "",
            f"{sum(line['files'].values()):,}",
            *(_inside(line, found["feature"]) if max_changes else ["yes" * bool(line["refused"])]),
        )
    Console().print(shown)


def _inside(line: dict[str, Any], feature: str) -> list[str]:
    shares = line["held"][feature]
    pairs = [
        tuple(f"{line['auc'][f'{name}{of}']:.3f}" for name in ("frozen", "unfrozen"))
        for of in ("", "_alone")
    ]
    return [f"{shares['held']:.1%}", f"{shares['moved']:.1%}", *map(" / ".join, pairs)]

"""`opboost simulate`: would a federation pay, and at which epsilon, by one's own table alone."""

from pathlib import Path
from typing import Annotated, Any

import typer

from opboost_ops.cli.arguments import AsJson
from opboost_ops.errors import ConfigError


def command(
    table: Annotated[Path, typer.Argument(help="A Parquet or CSV table.")],
    label: Annotated[str, typer.Option(help="The label column.")],
    split: Annotated[
        list[str],
        typer.Option(metavar="PARTY=a,b,c", help="Columns of an imagined party; repeatable."),
    ],
    upper: Annotated[int, typer.Option(help="R of the domain, whose L is 1.")] = 10,
    dialect: Annotated[
        str | None,
        typer.Option(help="How a CSV file is written: \"decimal: ',', dates: '%d.%m.%Y'\"."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The picture's file.")] = Path("simulation.html"),
    as_json: AsJson = False,
) -> None:
    """Split a table among imagined parties, and show what a federation would gain at each loss."""
    import json

    from opboost_ops import api
    from opboost_ops.cli.output.progress import counting
    from opboost_ops.extras.lab.simulation import NOT_CHARGED, answer
    from opboost_ops.tables.local import dialect_of

    with counting("trainings") as progress:
        result = api.simulate(
            table,
            label,
            _split(split),
            upper=upper,
            out=out,
            dialect=None if dialect is None else dialect_of(dialect),
            progress=progress,
        )
    if as_json:
        print(json.dumps({**result.document(), "picture": str(out), "note": NOT_CHARGED}))
        return
    _show(result)
    print("\n".join(answer(result)))
    for name, why in result.left_out.items():
        print(f"Left out {name}: {why}.")
    print(f"Picture: {out}\n{NOT_CHARGED}")


def _split(entries: list[str]) -> dict[str, list[str]]:
    by_party: dict[str, list[str]] = {}
    for entry in entries:
        party, sign, names = entry.partition("=")
        if not (party and sign):
            raise ConfigError(f"--split {entry} is not of the form PARTY=a,b,c.")
        if party in by_party:
            raise ConfigError(f"--split names {party} twice.", "Give all its columns at once.")
        by_party[party] = [name.strip() for name in names.split(",") if name.strip()]
    return by_party


def _show(simulation: Any) -> None:
    from opboost_ops.cli.output.printing import print_table
    from opboost_ops.extras.lab.simulation import DRAWS

    heads = ("mode", "epsilon", "loss(R-L)", simulation.metric, "gain over alone")
    rows = [
        ("alone", "", "", simulation.alone, ""),
        ("centralised", "", "", simulation.centralised, simulation.pooled_gain),
        *((p.mode, f"{p.epsilon:g}", f"{p.loss:.3g}", p.metric, p.gain) for p in simulation.points),
    ]
    print_table(
        f"{simulation.metric} of {simulation.rows[1]:,} held-out rows; means of {DRAWS} draws, "
        "with 95 % intervals of rows and draw",
        heads,
        rows,
    )

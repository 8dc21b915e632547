"""`opboost simulate`: would a federation pay, and at which epsilon, by one's own table alone."""

from pathlib import Path
from typing import Annotated, Any

import typer

from opboost_ops.errors import ConfigError


def command(
    table: Annotated[Path, typer.Argument(help="One's own Parquet or CSV table.")],
    label: Annotated[str, typer.Option(help="Its label column.")],
    split: Annotated[
        list[str],
        typer.Option(metavar="PARTY=a,b,c", help="Columns of an imagined party; repeatable."),
    ],
    upper: Annotated[int, typer.Option(help="R of the domain, whose L is 1.")] = 10,
    seed: Annotated[int, typer.Option(help="Of noise and held-out rows.")] = 0,
    out: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("simulation.html"),
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line on stdout.")] = False,
) -> None:
    """Deal a table to imagined parties: the metric in each mode over the loss, with intervals."""
    import json

    from opboost_ops.cli.progress import counting
    from opboost_ops.datasets.dealt import deal
    from opboost_ops.datasets.simulation import simulate
    from opboost_ops.domain import Domain
    from opboost_ops.pages.simulation_report import NOT_CHARGED, answer, simulation_report

    domain = Domain(1, upper)
    if excess := domain.excess():
        raise ConfigError(f"The domain {excess}.", "Name a smaller --upper.")
    dealt = deal(_read(table), label, _split(split), domain)
    with counting("trainings") as progress:
        found = simulate(dealt, domain, seed=seed, progress=progress)
    out.write_text(simulation_report(f"{table.stem}: would it pay?", found), encoding="utf-8")
    out.chmod(0o600)
    if as_json:
        print(json.dumps({**_document(found), "picture": str(out), "note": NOT_CHARGED}))
        return
    _show(found)
    print("\n".join(answer(found)))
    for name, why in found.left_out.items():
        print(f"Left out: {name} {why}.")
    print(f"Picture: {out}\n{NOT_CHARGED}")


def _split(entries: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for entry in entries:
        party, sign, names = entry.partition("=")
        if not (party and sign):
            raise ConfigError(f"--split {entry} is not of the form PARTY=a,b,c.")
        if party in found:
            raise ConfigError(f"--split names {party} twice.", "Give all its columns at once.")
        found[party] = [name.strip() for name in names.split(",") if name.strip()]
    return found


def _read(path: Path) -> Any:
    import polars as pl

    try:
        if path.suffix in (".csv", ".gz"):
            return pl.read_csv(path, infer_schema_length=None, try_parse_dates=True)
        return pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError):
        pass
    raise ConfigError(f"{path} is missing, or neither Parquet nor CSV.")


def _document(found: Any) -> dict[str, Any]:
    return {
        "task": found.task,
        "metric": found.metric,
        "rows": {"training": found.rows[0], "held_out": found.rows[1]},
        "alone": found.alone.document(),
        "centralised": found.centralised.document(),
        "points": [
            {
                "epsilon": point.epsilon,
                "loss": point.loss,
                "mode": point.mode,
                "metric": point.metric.document(),
                "gain": point.gain.document(),
            }
            for point in found.points
        ],
        "pays_from": {
            mode: getattr(found.pays_from(mode), "epsilon", None)
            for mode in dict.fromkeys(point.mode for point in found.points)
        },
        "left_out": dict(found.left_out),
        "charged": False,
    }


def _show(found: Any) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{found.metric} of {found.rows[1]:,} held-out rows")
    for head in ("mode", "epsilon", "loss(R-L)", found.metric, "gain over alone"):
        table.add_column(head)
    table.add_row("alone", "", "", str(found.alone), "")
    table.add_row("centralised", "", "", str(found.centralised), "")
    for p in found.points:
        table.add_row(p.mode, f"{p.epsilon:g}", f"{p.loss:.3g}", str(p.metric), str(p.gain))
    Console().print(table)

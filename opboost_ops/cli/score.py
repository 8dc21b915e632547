"""`opboost score`: new rows scored without Airflow, a process a party."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console


def command(
    federation: Annotated[Path, typer.Argument(help="federation.yaml")],
    version: Annotated[str | None, typer.Option(help="A model; the champion if absent.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line on stdout.")] = False,
) -> None:
    """Score the parties' tables of new rows (tables.*.score in their site.yaml)."""
    from opboost_ops.cli.progress import Progress
    from opboost_ops.config.loading import load_site
    from opboost_ops.run import local
    from opboost_ops.run.party_sites import site_files

    with Progress() as progress:
        finished = local.run_federation(federation, {"version": version}, progress, "score")
    owner = finished.federation.label_holder
    site = load_site(site_files(federation, finished.federation)[owner])
    result = scored(finished.federation.name, finished.run, finished.summaries[owner])
    folder = site.scores / finished.federation.name / result["version"]
    result |= {"scores": str(folder / result["scores"]), "seconds": finished.seconds()}
    if as_json:
        print(json.dumps(result, sort_keys=True))
    else:
        Console().print(told(result), soft_wrap=True)


def scored(federation: str, run: str, summaries: Mapping[str, Any]) -> dict[str, Any]:
    """What a finished scoring run gave.

    Args:
        federation: Its name.
        run: The run's id.
        summaries: Of the label holder's stages.
    """
    return {
        "federation": federation,
        "run": run,
        "version": summaries["score"]["version"],
        "mode": summaries["score"]["mode"],
        "rows": summaries["write_scores"]["rows"],
        "new": summaries["write_scores"]["new"],
        "scores": summaries["write_scores"]["file"],
    }


def told(result: Mapping[str, Any]) -> str:
    """The same in a sentence.

    Args:
        result: As `scored` gives it.
    """
    known = "" if result["new"] else " (they were there already, and are unchanged)"
    return (
        f"{result['rows']:,} new rows were scored by version {result['version']} in mode "
        f"{result['mode']}{known}: {result['scores']}"
    )

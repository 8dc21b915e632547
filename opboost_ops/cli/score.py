"""`opboost score`: new rows scored without Airflow, a process per party."""

import json
from typing import Annotated

import typer
from rich.console import Console

from opboost_ops.cli.arguments import AsJson, FederationFile


def command(
    federation: FederationFile,
    version: Annotated[
        str | None, typer.Option(help="A model version; default: the champion.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Score the parties' tables of new rows (tables.*.score in their site.yaml)."""
    from opboost_ops import api
    from opboost_ops.cli.output.progress import Progress

    with Progress() as progress:
        scored = api.score(federation, version, listener=progress)
    if as_json:
        print(json.dumps(scored.document(), sort_keys=True))
        return
    show(scored.scores.height, scored.version, scored.mode, scored.new, str(scored.file))


def show(rows: int, version: str, mode: str, new: bool, file: str) -> None:
    """Print a finished scoring run in a sentence."""
    note = "" if new else " (they were there already, and are unchanged)"
    sentence = f"{rows:,} new rows were scored by version {version} in mode {mode}{note}: {file}"
    Console().print(sentence, soft_wrap=True)

"""`opboost outcomes`: labels that became known after scoring, compared with the scores."""

from pathlib import Path
from typing import Annotated

import typer

from opboost_ops.cli.arguments import AsJson, Site
from opboost_ops.cli.models import Federation


def command(
    site: Site,
    file: Annotated[
        Path,
        typer.Argument(help="Parquet or CSV with all known outcomes: ID and label as in training."),
    ],
    version: Annotated[
        str | None, typer.Option(help="A model version; default: the champion.")
    ] = None,
    federation: Federation = None,
    as_json: AsJson = False,
) -> None:
    """Compare scores with labels that became known later; the report stays at home."""
    from opboost_ops import api

    report = api.outcomes(site, file, version, federation)
    if as_json:
        print(report.model_dump_json())
        return
    from opboost_ops.api.models import models_at
    from opboost_ops.cli.output.printing import print_blocks
    from opboost_ops.reports.outcomes import outcome_blocks

    print(f"Outcomes of version {report.version} in mode {report.mode} (stays at home):")
    print_blocks(outcome_blocks(report, models_at(site, federation).version(version)))

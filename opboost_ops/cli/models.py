"""`opboost models`, `outcomes`, `serve`: the label holder's model versions."""

from pathlib import Path
from typing import Annotated

import typer

from opboost_ops.cli.arguments import AsJson, FederationFile, SiteFolder

models_app = typer.Typer(help="List, export and promote model versions.", no_args_is_help=True)

Site = Annotated[Path, typer.Argument(help="Folder of the label holder's site.yaml.")]
Federation = Annotated[
    str | None, typer.Option(help="The federation; required if there are several.")
]
Because = Annotated[str, typer.Option(help="The reason, for the history of decisions.")]


@models_app.command("list")
def list_(site: Site, federation: Federation = None, as_json: AsJson = False) -> None:
    """List versions and decisions, newest first; with --json oldest first, with all metrics."""
    import json

    from opboost_ops.api.models import models_at

    models = models_at(site, federation)
    lines, damages = models.lines()
    for damage in damages:
        typer.secho(damage, fg="yellow", err=True)
    if as_json:
        print(json.dumps(lines))
        return
    from opboost_ops.cli.output import print_blocks
    from opboost_ops.reports.listing import decisions_table, versions_table

    view = models.view
    print_blocks([versions_table(view, view.names), decisions_table(view)])


@models_app.command("show")
def show(
    site: Site,
    version: Annotated[str | None, typer.Argument(help="Default: the champion.")] = None,
    federation: Federation = None,
    as_json: AsJson = False,
) -> None:
    """Print a version's card."""
    from opboost_ops.api.models import models_at

    models = models_at(site, federation)
    card = models.files(version)["card.json"].decode()
    if as_json:
        print(card)
        return
    from opboost_ops.cli.output import print_blocks
    from opboost_ops.reports.version_page import version_blocks

    print_blocks(version_blocks(models.version(version)))


@models_app.command("export")
def export(
    site: Site,
    out: Annotated[Path, typer.Option(help="The new file.")],
    version: Annotated[str | None, typer.Argument(help="Default: the champion.")] = None,
    form: Annotated[
        str | None,
        typer.Option("--format", help="text, json or onnx; default: the model's own."),
    ] = None,
    federation: Federation = None,
) -> None:
    """Write a model for other programs: ONNX takes raw columns, other formats mapped ones."""
    from opboost_ops.api.models import models_at

    model, *columns = models_at(site, federation).export(out, version, form)
    print(f"Model: {model}")
    for path in columns:
        print(f"Read before use, how its columns are mapped: {path}")


@models_app.command("promote")
def promote(
    site: Site,
    version: Annotated[str, typer.Argument(help="The version.")],
    because: Because = "by hand",
    federation: Federation = None,
) -> None:
    """Make a version champion, whatever the gate said."""
    from opboost_ops.api.models import models_at

    print(f"{models_at(site, federation).promote(version, because)} is champion.")


@models_app.command("rollback")
def rollback(
    site: Site,
    version: Annotated[
        str | None, typer.Argument(help="A former champion; default: the previous one.")
    ] = None,
    because: Because = "by hand",
    federation: Federation = None,
) -> None:
    """Make the previous champion, or a named former one, champion again."""
    from opboost_ops.api.models import models_at

    print(f"{models_at(site, federation).rollback(version, because)} is champion again.")


def outcomes_command(
    site: SiteFolder,
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
    from opboost_ops.cli.output import print_blocks
    from opboost_ops.reports.outcomes import outcome_blocks

    print(f"Outcomes of version {report.version} in mode {report.mode} (stays at home):")
    print_blocks(outcome_blocks(report, models_at(site, federation).version(version)))


def serve_command(
    site: SiteFolder,
    federation: FederationFile,
    host: Annotated[
        str, typer.Option(help="Address to listen on; put TLS in front of any but 127.0.0.1.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8750,
) -> None:
    """Serve scores of single rows over HTTP, without the other parties."""
    from opboost_ops.config.loading import load_site
    from opboost_ops.extras.serving.app import require_server, serve
    from opboost_ops.extras.serving.scorer import Scorer

    require_server()
    token = load_site(site / "site.yaml").serving_token()
    scorer = Scorer(site, federation, record=True)
    print(f"Version {scorer.version} scores in mode {scorer.mode} at http://{host}:{port}/score")
    serve(scorer, token, host, port)

"""`opboost models`: the label holder's versions, and which one is champion."""

from pathlib import Path
from typing import Annotated

import typer

from opboost_ops.cli.arguments import AsJson

app = typer.Typer(help="List, export and promote model versions.", no_args_is_help=True)

Site = Annotated[Path, typer.Argument(help="Folder of the label holder's site.yaml.")]
Federation = Annotated[
    str | None, typer.Option(help="The federation; required if there are several.")
]
Because = Annotated[str, typer.Option(help="The reason, for the history of decisions.")]


@app.command("list")
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
    from opboost_ops.cli.output.printing import print_blocks
    from opboost_ops.reports.listing import decisions_table, versions_table

    view = models.view
    print_blocks([versions_table(view, view.names), decisions_table(view)])


@app.command("show")
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
    from opboost_ops.cli.output.printing import print_blocks
    from opboost_ops.reports.version_page import version_blocks

    print_blocks(version_blocks(models.version(version)))


@app.command("export")
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


@app.command("promote")
def promote(
    site: Site,
    version: Annotated[str, typer.Argument(help="The version.")],
    because: Because = "by hand",
    federation: Federation = None,
) -> None:
    """Make a version champion, whatever the gate said."""
    from opboost_ops.api.models import models_at

    print(f"{models_at(site, federation).promote(version, because)} is champion.")


@app.command("rollback")
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

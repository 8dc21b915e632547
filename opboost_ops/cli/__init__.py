"""The command line: `opboost COMMAND`. Each command's module is loaded when it is called."""

import sys
from typing import Annotated

import typer

from opboost_ops import __version__
from opboost_ops.cli import (
    agree,
    airflow,
    approve,
    artifact,
    audit,
    backup,
    bounds,
    channel,
    check,
    compose,
    demo,
    edges,
    federate,
    forget,
    init,
    keys,
    leakage,
    ledger,
    models,
    outcomes,
    plan,
    run,
    score,
    serve,
    simulate,
    sites,
    stop,
    store,
)
from opboost_ops.errors import OpBoostError

app = typer.Typer(
    name="opboost",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"OpBoost Ops {__version__}")
        raise typer.Exit


@app.callback()
def _commands(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Train gradient-boosted trees across organisations, with local differential privacy."""
    # Only a command needs it, and `--help` is quick without.
    from opboost_ops.orchestration.settings import use_airflow_secrets

    use_airflow_secrets()


app.command("init")(init.command)
app.command("bounds")(bounds.command)
app.command("federate")(federate.command)
app.command("agree", cls=agree.YesWithDigest)(agree.command)
app.command("approve")(approve.command)
app.command("stop")(stop.stop)
app.command("resume")(stop.resume)
app.command("check")(check.command)
app.command("run")(run.command)
app.command("score")(score.command)
app.command("serve")(serve.command)
app.command("outcomes")(outcomes.command)
app.command("channel")(channel.command)
app.command("plan")(plan.command)
app.command("simulate")(simulate.command)
app.command("leakage")(leakage.command)
app.command("artifact")(artifact.command)
app.command("edges")(edges.command)
app.command("forget")(forget.command)
app.command("compose")(compose.command)
app.command("backup")(backup.backup)
app.command("restore")(backup.restore)
app.add_typer(ledger.app, name="ledger")
app.add_typer(models.app, name="models")
app.add_typer(keys.app, name="keys")
app.add_typer(audit.app, name="audit")
app.add_typer(store.app, name="store")
app.add_typer(sites.app, name="sites")
app.add_typer(airflow.app, name="airflow")
app.command("demo")(demo.demo)
app.command("ui")(demo.ui)


def main() -> None:
    """Run the command line; an error is one message, never a traceback."""
    try:
        app(prog_name="opboost")
    except OpBoostError as error:
        typer.secho(f"Error: {error}", fg="red", err=True)
        sys.exit(1)

"""The `opboost` command line. The modules of a command are imported only when it runs."""

import sys
from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from opboost_ops import __version__
from opboost_ops.cli import (
    agree,
    airflow,
    backup,
    check,
    exchange,
    init,
    ledger,
    models,
    plan,
    run,
    simulate,
)
from opboost_ops.errors import OpBoostError

app = typer.Typer(
    name="opboost",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

_COMMANDS: Mapping[str, Callable[..., None]] = {
    "init": init.init_command,
    "bounds": init.bounds_command,
    "federate": init.federate_command,
    "agree": agree.agree_command,
    "approve": agree.approve_command,
    "stop": agree.stop,
    "resume": agree.resume,
    "check": check.command,
    "run": run.run_command,
    "score": run.score_command,
    "serve": models.serve_command,
    "outcomes": models.outcomes_command,
    "channel": plan.channel_command,
    "plan": plan.plan_command,
    "simulate": simulate.simulate_command,
    "leakage": simulate.leakage_command,
    "verify": exchange.verify_command,
    "edges": plan.edges_command,
    "forget": ledger.forget_command,
    "backup": backup.backup,
    "restore": backup.restore,
    "demo": airflow.demo,
    "ui": airflow.ui,
}


def _version(value: bool) -> None:
    if value:
        typer.echo(f"OpBoost Ops {__version__}")
        raise typer.Exit


@app.callback()
def _commands(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Train gradient-boosted trees across organisations, with local differential privacy."""
    # Here and not at module level, so that `--help` stays fast.
    from opboost_ops.orchestration.settings import use_airflow_secrets

    use_airflow_secrets()


for _name, _command in _COMMANDS.items():
    app.command(_name, cls=agree.YesWithDigest if _name == "agree" else None)(_command)
for _name, _group in {
    "ledger": ledger.ledger_app,
    "models": models.models_app,
    "keys": init.keys_app,
    "audit": exchange.audit_app,
    "store": exchange.store_app,
    "airflow": airflow.airflow_app,
}.items():
    app.add_typer(_group, name=_name)


def main() -> None:
    """Run the command line; an error is printed as one message, never as a traceback."""
    try:
        app(prog_name="opboost")
    except (OpBoostError, ConnectionError) as error:
        retry = "" if isinstance(error, OpBoostError) else " Run this again later."
        problem = f"{error}{retry}"
    except OSError as error:
        cause = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        problem = f"{cause}. Correct it, and run this again."
    except Exception as error:
        # Only commands that use SQLAlchemy import it.
        if type(error).__name__ != "OperationalError":
            raise
        problem = (
            f"The database failed ({getattr(error, 'orig', error)}). "
            "Check its disk, its access rights, and what else uses it; then run this again."
        )
    else:
        return
    typer.secho(f"Error: {problem}", fg="red", err=True)
    sys.exit(1)

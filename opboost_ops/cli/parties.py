"""`opboost parties`: one Airflow, and a worker for each party as a unix user of its own."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opboost_ops.cli.forms import AsCsv, AsJson, one_form, print_csv
from opboost_ops.errors import OpBoostError

if TYPE_CHECKING:
    from opboost_ops.orchestration.parties.topology import Topology

app = typer.Typer(
    help="One Airflow, and a worker for each party as a unix user of its own (as root).",
    no_args_is_help=True,
)

_Folder = Annotated[Path, typer.Option(help="Where all of it lies; others must reach it.")]
_Prefix = Annotated[str, typer.Option(help="How the names of its unix users begin.")]
_FOLDER = Path("/var/lib/opboost-parties")


@app.command("up")
def up(
    folder: _Folder = _FOLDER,
    prefix: _Prefix = "opboost",
    dataset: Annotated[
        str, typer.Option(help="One of `opboost datasets list`, if there is no federation yet.")
    ] = "credit",
    rows: Annotated[int | None, typer.Option(min=50, help="Of the generated dataset.")] = None,
    store: Annotated[str | None, typer.Option(help="URL of the exchange, for S3.")] = None,
) -> None:
    """Start everything, leave it running, and say where it is."""
    from rich.console import Console

    from opboost_ops.cli.demo import end_on_signals, require_airflow
    from opboost_ops.orchestration.parties.topology import Topology

    require_airflow("opboost parties up")
    end_on_signals()
    console = Console(stderr=True)
    console.print(f"Starting in {folder}; the first time it builds a Python environment ...")
    topology = Topology(folder, prefix=prefix, dataset=dataset, rows=rows, store=store)
    topology.up()
    _show(topology)
    console.print(f"Airflow runs at {topology.url}", soft_wrap=True)
    console.print(
        f"Log in as admin; the password is in {topology.places.passwords}", soft_wrap=True
    )
    console.print("`make parties-down` ends it.")


@app.command("down")
def down(folder: _Folder = _FOLDER, prefix: _Prefix = "opboost") -> None:
    """End everything; what it made stays."""
    from opboost_ops.orchestration.parties.topology import Topology

    Topology(folder, prefix=prefix).down()


@app.command("remove")
def remove(folder: _Folder = _FOLDER, prefix: _Prefix = "opboost") -> None:
    """End everything, and remove the folder and the users: tables, keys and models too."""
    from opboost_ops.orchestration.parties.topology import Topology

    Topology(folder, prefix=prefix).remove()


@app.command("status")
def status(
    folder: _Folder = _FOLDER,
    prefix: _Prefix = "opboost",
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Say what runs, and as whom."""
    import json

    from opboost_ops.orchestration.parties.topology import Topology

    one_form(as_json, as_csv)
    topology = Topology(folder, prefix=prefix)
    if not (as_json or as_csv):
        _show(topology)
        return
    lines: list[dict[str, str | int]] = [
        {
            "component": name,
            "user": topology.account(name).name,
            "process": pid,
            "ended_by_itself": topology.ends(name),
            "log": str(topology.log(name)),
        }
        for name, pid in topology.components.items()
    ]
    if as_csv:
        print_csv(("component", "user", "process", "ended_by_itself", "log"), lines)
    else:
        print(json.dumps(lines))


@app.command("refusals")
def refusals(
    folder: _Folder = _FOLDER,
    prefix: _Prefix = "opboost",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line an attempt.")] = False,
) -> None:
    """Try, as each party, to get at everything of the others; exit 1 if anything is allowed."""
    from rich.console import Console

    from opboost_ops.cli.printing import table
    from opboost_ops.orchestration.parties.refusals import refusals
    from opboost_ops.orchestration.parties.topology import Topology

    shown = table("Attempts", "as", "of", "attempt", "outcome", "reason")
    found = []
    for attempt in refusals(Topology(folder, prefix=prefix)):
        found.append(attempt)
        if as_json:
            print(attempt.model_dump_json(), flush=True)
        mark = " (!)" if attempt.wrong else ""
        outcome = f"{attempt.outcome}{mark}"
        shown.add_row(attempt.party, attempt.other, attempt.what, outcome, attempt.reason)
    if not as_json:
        Console().print(shown)
    wrong = sum(attempt.wrong for attempt in found)
    if wrong:
        raise OpBoostError(
            f"{wrong} of {len(found)} attempts did not end as they must.",
            "What is another's must be refused, what is one's own allowed; see those marked (!).",
        )


@app.command("keys")
def keys(
    folder: Annotated[Path, typer.Argument(help="Where; a new one.")],
    federations: Annotated[Path, typer.Option(help="Folder of the federation files.")],
) -> None:
    """Make the passwords and keys that `docker/compose.yaml` gives to its containers."""
    from opboost_ops.orchestration.parties.container_keys import write_keys

    for path in write_keys(folder, federations):
        print(path)


def _show(topology: "Topology") -> None:
    from rich.console import Console

    from opboost_ops.cli.printing import table

    shown = table("Components", "component", "user", "process", "ended by itself", "log")
    for name, pid in topology.components.items():
        ends = topology.ends(name)
        often = f"[red]{ends} times[/red]" if ends else "never"
        user = topology.account(name).name
        shown.add_row(name, user, str(pid), often, str(topology.log(name)))
    Console().print(shown)

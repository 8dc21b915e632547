"""`opboost parties drill`: kill the workers of real runs, and look at what is left."""

from pathlib import Path
from typing import Annotated

import typer

from opboost_ops.errors import ConfigError, OpBoostError

_DRILL = Path("/var/lib/opboost-drill")
_ENVIRONMENT = Path("/var/lib/opboost-parties/environment")


def command(
    kills: Annotated[int, typer.Option(min=1, help="How many.")] = 50,
    seed: Annotated[int, typer.Option(help="Decides at which points.")] = 0,
    federations: Annotated[int, typer.Option(min=1, help="Runs side by side.")] = 5,
    rows: Annotated[int, typer.Option(min=200, help="Of the generated tables.")] = 400,
    folder: Annotated[Path, typer.Option(help="A topology of the drill's own.")] = _DRILL,
    environment: Annotated[
        Path, typer.Option(help="Of Python, for its users; made if it is not there.")
    ] = _ENVIRONMENT,
    page: Annotated[Path | None, typer.Option(help="Document with the markers of a drill.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line a kill.")] = False,
) -> None:
    """Kill workers at random points of real runs, and look at what is left; then remove it all."""
    from rich.console import Console

    from opboost_ops.cli.demo import end_on_signals
    from opboost_ops.lab.drill import drill
    from opboost_ops.lab.drill.page import told, written
    from opboost_ops.orchestration.parties.topology import Topology

    text = page.read_text(encoding="utf-8") if page else ""
    if page:
        written(text, [])  # Before an hour's work: are the markers there?
    if folder.exists():
        raise ConfigError(
            f"{folder} is there already, and a drill removes its folder.", "Name another one."
        )
    end_on_signals()
    console = Console(stderr=True)
    orders = folder / "drill"
    topology = Topology(
        folder,
        prefix="opboost-drill",
        environment=environment,
        rows=rows,
        copies=federations,
        training={"trees": 5},
        coordinator_settings=drill.MISSED_SOON,
        worker_settings=drill.MISSED_SOON,
        worker_environment=drill.environment_of(orders),
    )
    found = []
    try:
        drill.prepare(orders)
        console.print("Starting, and a whole run of each federation ...")
        with topology:
            of = drill.Drill(topology, orders, seed, console.print)
            of.warm()
            for blow in of.strike(kills):
                found.append(blow)
                if as_json:
                    print(blow.model_dump_json(), flush=True)
            parts = drill.left_behind(topology.places.exchange)
    finally:
        # Also of a drill that was stopped: each kill stands for itself.
        if page and found:
            page.write_text(written(text, found), encoding="utf-8")
        topology.remove()
    if not as_json:
        print(told(found))
    console.print(f"{parts} unfinished writes were left in the store; no reader ever sees them.")
    wrong = sum(bool(blow.problems) for blow in found)
    if wrong:
        raise OpBoostError(
            f"After {wrong} of {len(found)} kills something was wrong.", "See the table above."
        )

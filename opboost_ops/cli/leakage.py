"""`opboost leakage`: attacks that a party runs on its own release before it makes it."""

from pathlib import Path
from typing import Annotated

import typer

from opboost_ops.errors import ConfigError, ContractError


def command(
    federation: Annotated[Path, typer.Argument(help="federation.yaml")],
    party: Annotated[str | None, typer.Option(help="Which feature holder.")] = None,
    gate: Annotated[
        float | None, typer.Option(help="Fail if an attack gains more than this share of rows.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line on stdout.")] = False,
) -> None:
    """Attack the release that a party would make now; report and picture stay in its home."""
    import json

    from opboost_ops.config.loading import POLICY, load_federation, load_policy, load_site
    from opboost_ops.exchange.store import open_store
    from opboost_ops.pages.leakage_report import leakage_report
    from opboost_ops.run.agreement_file import load
    from opboost_ops.run.leakage import leakage
    from opboost_ops.run.party_sites import party_site_file
    from opboost_ops.stages.sources import borrowed
    from opboost_ops.stages.stage import Context, Home

    declared = load_federation(federation)
    holders = declared.feature_holders
    if not holders:
        raise ConfigError(
            "In horizontal learning nothing is randomised.", "See what is told: docs/horizontal.md."
        )
    holder = holders[0] if party is None and len(holders) == 1 else party
    if holder not in holders:
        raise ConfigError("Name a feature holder with --party.", f"They are {', '.join(holders)}.")
    file = party_site_file(federation, holder)
    if file is None:
        raise ConfigError(
            f"No site.yaml of {holder} is known.",
            f"Set OPBOOST_SITE_{holder.upper()} to its path.",
        )
    site, policy = load_site(file), load_policy(file.parent / POLICY)
    home = Home(site.home / declared.name)
    store = open_store(site.store)
    # The noise that would be drawn, so by what the party's first agreement recorded.
    recorded = load(site).columns
    context = Context(
        declared, "", holder, site, policy, home, store, "", timeout=0.0, recorded=recorded
    )
    with borrowed(context) as lent:
        found = leakage(lent)
    result = found.to_json()
    home.write_json("leakage", result)
    picture = home.folder / "leakage.html"
    title = f"Attacks on the release of {holder} in {declared.name}"
    home.write(picture.name, leakage_report(title, found).encode())
    if as_json:
        print(json.dumps({"party": holder, **result, "picture": str(picture)}))
    else:
        _show(holder, found, picture)
    name, worst = found.worst
    if gate is not None and worst.gain > gate:
        raise ContractError(
            f"The attack {worst.name} on {name} gains {worst.gain:.3f}, above the gate of {gate}.",
            "Declare a smaller epsilon or another mechanism; `opboost plan` ranks them.",
        )


def _show(holder: str, found: "object", picture: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from opboost_ops.run.leakage import Leakage

    assert isinstance(found, Leakage)
    console = Console()
    table = Table(title=f"{holder}: attacks on the release it would make now")
    for head in ("column", "attack", "success", "95 % interval", "without release", "verdict"):
        table.add_column(head)
    for name, tried in found.columns.items():
        for one in tried:
            interval = f"{one.low:.3f} to {one.high:.3f}"
            cells = (f"{one.success:.3f}", interval, f"{one.baseline:.3f}", one.verdict)
            table.add_row(name, one.name, *cells)
    console.print(table)
    for name, curves in found.averaging.items():
        first, last = curves.keyed[0].success, curves.keyed[-1].success
        console.print(
            f"{name}: averaging {len(curves.keyed)} retrainings places {last:.3f} of the rows, "
            f"after {first:.3f} with one; fresh noise would let it place "
            f"{curves.fresh[-1].success:.3f}."
        )
    linked = found.linked
    console.print(f"Linking two receivers' rows: {linked.success:.3f}, {linked.verdict}.")
    console.print(f"Report and picture stay at home: {picture}", soft_wrap=True)

"""`opboost ledger`: what a party has released, what it cost, what is left."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from opboost_ops.cli.arguments import AsJson, Site
from opboost_ops.errors import ConfigError

app = typer.Typer(help="Show and repair a party's privacy ledger.", no_args_is_help=True)


@app.command("show")
def show(site: Site, as_json: AsJson = False) -> None:
    """Print each column's releases, cost and budget, and all exact disclosures."""
    import json

    from opboost_ops.config.loading import load_party
    from opboost_ops.reports.ledger import ledger_of

    declared, policy = load_party(site / "site.yaml")
    view = ledger_of(declared, policy)
    if as_json:
        print(json.dumps(view.document()))
        return
    from opboost_ops.cli.output.printing import print_blocks
    from opboost_ops.reports import ledger_tables
    from opboost_ops.reports.display.blocks import Heading

    print_blocks(
        [
            Heading(f"{declared.party}: privacy ledger"),
            *ledger_tables.open_notes(policy, view.lines),
            *([ledger_tables.totals(view.lines, view, view.entries)] if view.lines else []),
            ledger_tables.columns_table(view.lines),
            *ledger_tables.models_blocks(view.entries, view.entries, policy.model_budget),
            ledger_tables.exact_table(view.entries),
        ]
    )


@app.command("check")
def check(site: Site, as_json: AsJson = False) -> None:
    """Compare the database with store, checkpoints and pin files; exit 1 on a gap."""
    import json

    from opboost_ops.config.loading import load_site
    from opboost_ops.exchange.party_state import LostDatabase, open_state
    from opboost_ops.pipeline.party.rollback import check as find_gaps

    declared = load_site(site / "site.yaml")
    gaps = find_gaps(declared)
    lines, entries, head = 0, 0, ""
    try:
        with open_state(declared) as state:
            lines = len(state.ledger.entries())
            entries, head = state.audit.head()
    except LostDatabase:
        pass
    if as_json:
        summary = {"party": declared.party, "lines": lines, "entries": entries, "head": head}
        print(json.dumps({**summary, "gaps": [asdict(gap) for gap in gaps]}))
    else:
        print(f"{declared.party}: {lines} lines, {entries} audit entries, head {head[:16]}.")
        for gap in gaps:
            print(gap)
    if gaps:
        lost = sum(gap.lacks != "open" for gap in gaps)
        raise ConfigError(
            f"{lost} gaps between the state of {declared.party} and its store, and "
            f"{len(gaps) - lost} entries are charged that are not known to be published.",
            "docs/runbook.md has the fix for each; until then no run releases anything.",
        )


@app.command("recover")
def recover(
    site: Site,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes", help="End all releases, charge missing ones, accept the present store."
        ),
    ] = False,
) -> None:
    """End all releases, charge those that the ledger has lost, or accept another store."""
    from opboost_ops.config.loading import load_party
    from opboost_ops.pipeline.party.recovery import recover as charge
    from opboost_ops.pipeline.party.rollback import check as find_gaps

    declared, policy = load_party(site / "site.yaml")
    gaps = [gap for gap in find_gaps(declared) if gap.lacks != "open"]
    if not gaps:
        print(f"{declared.party}: the state has lost nothing.")
        return
    if not yes:
        for gap in gaps:
            print(gap)
        lost = sum(gap.lacks != "store" for gap in gaps)
        if not lost:
            raise ConfigError(
                "Recovery would accept the present store, at no charge.",
                "Mount the right one; or add --yes. Nothing was changed.",
            )
        raise ConfigError(
            f"Recovery would end all releases and charge {lost} gaps, permanently; each next run "
            "opens, and charges, new releases.",
            "Restore the newest backup, which costs less; or add --yes. Nothing was changed.",
        )
    done = charge(declared, policy)
    if done.stores:
        print(
            f"{declared.party}: runs of {', '.join(done.stores)} use the store that is there now, "
            "and no other one."
        )
    print(
        f"{declared.party}: {done.releases} missing releases were charged, and {done.ended} open "
        "releases have ended."
    )


@app.command("renew")
def renew(
    site: Site,
    column: Annotated[str, typer.Argument(help="The raw column.")],
    yes: Annotated[
        bool, typer.Option("--yes", help="Confirm: the next run charges it again.")
    ] = False,
) -> None:
    """End a column's release, so that the next run opens and charges another, of today's values."""
    from opboost_ops.config.loading import load_party
    from opboost_ops.pipeline.party.recovery import renew as end_release

    declared, policy = load_party(site / "site.yaml")
    for line in end_release(declared, policy, column, confirmed=yes):
        print(line)


@app.command("export")
def export(
    site: Site,
    out: Annotated[
        Path, typer.Option(help="A .csv or .json file, or .ndjson of OpenLineage events.")
    ],
) -> None:
    """Write all entries, oldest first."""
    import json

    from opboost_ops.config.loading import load_site
    from opboost_ops.exchange.party_state import open_state
    from opboost_ops.privacy.ledger.statement import PLAIN_FIELDS, plain_line
    from opboost_ops.reports.display.spreadsheets import csv_text
    from opboost_ops.reports.lineage import lineage_events

    declared = load_site(site / "site.yaml")
    with open_state(declared) as state:
        dated = state.ledger.dated()
    if out.suffix == ".json":
        lines = [{"recorded_at": at, **line.model_dump(mode="json")} for at, line in dated]
        out.write_text(json.dumps(lines, indent=1), encoding="utf-8")
    elif out.suffix == ".csv":
        lines = [plain_line(at, line) for at, line in dated]
        rows = ([line.get(name) for name in PLAIN_FIELDS] for line in lines)
        out.write_text(csv_text(PLAIN_FIELDS, rows), encoding="utf-8", newline="")
    elif out.suffix == ".ndjson":
        events = [json.dumps(event) + "\n" for event in lineage_events(dated)]
        out.write_text("".join(events), encoding="utf-8")
    else:
        raise ConfigError(f"{out.name} is not .csv, .json or .ndjson.", "Name another file.")
    print(f"Wrote {len(dated)} entries to {out}.")

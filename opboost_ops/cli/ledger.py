"""`opboost ledger` and `forget`: a party's releases and budgets, and erasure of a person."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opboost_ops.cli.arguments import AsJson, SiteFolder
from opboost_ops.errors import ConfigError

if TYPE_CHECKING:
    from opboost_ops.pipeline.party.forgetting import Erasure


ledger_app = typer.Typer(help="Show and repair a party's privacy ledger.", no_args_is_help=True)


@ledger_app.command("show")
def show(site: SiteFolder, as_json: AsJson = False) -> None:
    """Print each column's releases, cost and budget, and all exact disclosures."""
    from opboost_ops.config.loading import load_party
    from opboost_ops.reports.ledger import ledger_of

    declared, policy = load_party(site / "site.yaml")
    view = ledger_of(declared, policy)
    if as_json:
        print(json.dumps(view.document()))
        return
    from opboost_ops.cli.output import print_blocks
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


@ledger_app.command("check")
def check(site: SiteFolder, as_json: AsJson = False) -> None:
    """Compare the database with store, checkpoints and pin files; exit 1 on a gap."""
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
        print(
            f"{declared.party}: {lines} ledger entries, {entries} audit entries, head {head[:16]}."
        )
        for gap in gaps:
            print(gap)
    if gaps:
        lost = sum(gap.lacks != "open" for gap in gaps)
        raise ConfigError(
            f"Missing in the state or the store of {declared.party}: {lost}. Charged and not "
            f"known to be published: {len(gaps) - lost}.",
            "docs/runbook.md has the fix for each; "
            f"{'until then no run releases anything' if lost else 'runs continue'}.",
        )


@ledger_app.command("recover")
def recover(
    site: SiteFolder,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes", help="End all releases, charge missing ones, accept the present store."
        ),
    ] = False,
) -> None:
    """End all releases, charge those that the ledger has lost, or accept another store."""
    from opboost_ops.config.loading import load_party
    from opboost_ops.pipeline.party.recovery import recover as recover_state
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
            f"Recovery would end all releases and permanently charge what is missing ({lost}); the "
            "next run of each federation opens, and charges, new releases.",
            "Restore the newest backup, which costs less; or add --yes. Nothing was changed.",
        )
    done = recover_state(declared, policy)
    if done.stores:
        print(
            f"{declared.party}: runs of {', '.join(done.stores)} use the store that is there now, "
            "and no other one."
        )
    print(
        f"{declared.party}: missing releases charged: {done.releases}; open releases ended: "
        f"{done.ended}."
    )


@ledger_app.command("renew")
def renew(
    site: SiteFolder,
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


@ledger_app.command("export")
def export(
    site: SiteFolder,
    out: Annotated[
        Path, typer.Option(help="A .csv or .json file, or .ndjson of OpenLineage events.")
    ],
) -> None:
    """Write all entries, oldest first."""
    from opboost_ops.config.loading import load_site
    from opboost_ops.exchange.party_state import open_state
    from opboost_ops.privacy.ledger.entries import PLAIN_FIELDS, plain_line
    from opboost_ops.reports.display.tables import csv_text
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


def forget_command(
    site: SiteFolder,
    person: Annotated[
        str,
        typer.Argument(help="The ID, or the values of its columns, joined by |. - reads stdin."),
    ],
    receipt: Annotated[
        Path | None, typer.Option(help="A new JSON file that states what was done, without the ID.")
    ] = None,
) -> None:
    """Forget a person: no later run uses their rows. Lists what cannot be recalled."""
    import sys

    from opboost_ops import __version__
    from opboost_ops.config.loading import load_party
    from opboost_ops.exchange.party_state import open_state
    from opboost_ops.extras.backup.restoring import names_set_aside
    from opboost_ops.pipeline.party.forgetting import forget
    from opboost_ops.privacy.ledger.tables import now

    declared, policy = load_party(site / "site.yaml")
    if receipt is not None and (receipt.exists() or not receipt.parent.is_dir()):
        raise ConfigError(
            f"The receipt cannot be written to {receipt.name}: it is there already, or its folder "
            "is not.",
            "Name a new file. Nobody was forgotten yet.",
        )
    done = forget(declared, policy, sys.stdin.readline().strip() if person == "-" else person)
    with open_state(declared) as state:
        set_aside = names_set_aside(declared, state)
    for line in _erasure_lines(declared.party, done, set_aside):
        print(line)
    if receipt is not None:
        content = {
            "party": declared.party,
            "at": now(),
            "software": __version__,
            "audit_entry": done.audit_entry,
            "audit_head": done.audit_head,
            "listed_before": done.listed_before,
            "pins_removed": done.pins,
            "pins_not_read_of": done.unread_pins,
            "points_removed": done.points,
            "copies_cleaned": done.copies,
            "still_in_the_tables_of": done.tables,
            "tables_not_searched": done.unread_tables,
            "artifacts_that_cannot_be_recalled": done.artifacts,
            "models_trained_here_before": done.models,
        }
        receipt.write_text(f"{json.dumps(content, indent=1)}\n", encoding="utf-8")
        print(f"Receipt: {receipt}. `opboost audit show` has its entry, number {done.audit_entry}.")


def _erasure_lines(party: str, done: "Erasure", set_aside: list[str]) -> Iterator[str]:
    if done.known:
        before = " The ID was on its list of forgotten people before." if done.listed_before else ""
        yield f"{party} forgot the person: {done.pins} pins were removed.{before}"
    elif done.unread_tables:
        yield (
            f"{party} has listed the ID as forgotten. No pin had it, and the tables of "
            f"{', '.join(done.unread_tables)} could not be searched: check the spelling of the ID."
        )
    else:
        yield (
            f"{party} does not know this ID: no table and no release has it. It is "
            "listed as forgotten all the same; check its spelling."
        )
    yield "No release from the next run on has a row of this person."
    if done.unread_pins:
        yield (
            f"Pins of {', '.join(done.unread_pins)} are missing or damaged, so it is unknown "
            "whether they have the person; `opboost ledger recover` removes them."
        )
    if done.copies:
        runs = ", ".join(done.copies)
        yield f"Removed from the copies of source tables that runs of {runs} made."
    for receiver, paths in done.artifacts.items():
        yield (
            f"Cannot be recalled: up to {len(paths)} artifacts that {receiver} has received, "
            "and models trained on them."
        )
    if done.models:
        count = len(done.models)
        yield f"Trained with the person: up to {count} models here, but not the next one."
    yield (
        "Still here: the row in the party's own table or source, and other intermediate tables of "
        "earlier runs until `opboost store gc` removes those runs."
    )
    if set_aside:
        yield (
            f"Also in the state that `opboost restore` moved aside, until it is deleted: "
            f"{', '.join(set_aside)}."
        )

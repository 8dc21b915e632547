"""`opboost ledger` and `forget`: a party's releases and budgets, and erasure of a person."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opboost_ops.cli.arguments import AsJson, SiteFolder
from opboost_ops.errors import ConfigError

if TYPE_CHECKING:
    from opboost_ops.config.federation import IdColumn
    from opboost_ops.config.policy import Policy
    from opboost_ops.config.site import Site


ledger_app = typer.Typer(help="Show and repair a party's privacy ledger.", no_args_is_help=True)


@ledger_app.command("show")
def show(site: SiteFolder, as_json: AsJson = False) -> None:
    """Print each column's releases, cost and budget, and all exact disclosures."""
    import json

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
        print(
            f"{declared.party}: {lines} ledger entries, {entries} audit entries, head {head[:16]}."
        )
        for gap in gaps:
            print(gap)
    if gaps:
        lost = sum(gap.lacks != "open" for gap in gaps)
        raise ConfigError(
            f"{lost} gaps between the state of {declared.party} and its store, and "
            f"{len(gaps) - lost} entries are charged that are not known to be published.",
            "docs/runbook.md has the fix for each; until then no run releases anything.",
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
            f"Recovery would end all releases and charge {lost} gaps, permanently; each next run "
            "opens, and charges, new releases.",
            "Restore the newest backup, which costs less; or add --yes. Nothing was changed.",
        )
    done = recover_state(declared, policy)
    if done.stores:
        print(
            f"{declared.party}: runs of {', '.join(done.stores)} use the store that is there now, "
            "and no other one."
        )
    print(
        f"{declared.party}: {done.releases} missing releases were charged, and {done.ended} open "
        "releases have ended."
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
    import json

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
    import re
    import sys

    from opboost_ops import __version__
    from opboost_ops.config.loading import load_party
    from opboost_ops.exchange.party_state import open_state
    from opboost_ops.extras.backup.restoring import set_aside
    from opboost_ops.learning.registry.registry import Registry
    from opboost_ops.pipeline.home import cached_files
    from opboost_ops.pipeline.party.forgotten_rows import remove_points, remove_rows
    from opboost_ops.privacy.ledger.tables import now
    from opboost_ops.tables.id_recipe import id_of_text

    declared, policy = load_party(site / "site.yaml")
    entered = sys.stdin.readline().strip() if person == "-" else person
    if receipt is not None and (receipt.exists() or not receipt.parent.is_dir()):
        raise ConfigError(
            f"The receipt cannot be written to {receipt.name}: it is there already, or its folder "
            "is not.",
            "Name a new file. Nobody was forgotten yet.",
        )
    whole = int(entered) if re.fullmatch(r"-?\d{1,19}", entered) else None
    number = whole if whole is not None and -(2**63) <= whole < 2**63 else None
    if not entered:
        raise ConfigError("This is not an ID.", "Give the ID as it is in the table.")
    # The party's federations may have IDs of either type; the person is forgotten in all of them.
    candidates: list[str | int] = [entered]
    if number is not None and str(number) == entered:
        candidates.append(number)
    # The ID in the form that each ID recipe makes of it.
    candidates += [id_of_text(entered, recipe) for _, recipe in _ids_of(declared) if recipe.is_made]
    identities = list(dict.fromkeys(candidates))
    with open_state(declared) as state, state.transaction():
        entries = [e for e in state.ledger.entries() if e.account == "local_dp"]
        hashes = [state.forgotten.hashed(identity) for identity in identities]
        state.forgotten.add(hashes)
        removed = state.releases.forget(hashes)
        state.audit.add("forgotten", "pins", declared.party, detail=f"{removed} pins")
        number_of_entry, head = state.audit.head()
    with open_state(declared) as state:
        state.releases.collect()
        aside = set_aside(declared, state)
    copies = remove_rows(declared, policy, identities)
    points = remove_points(declared, identities)
    for path in cached_files(declared.home):
        # Cached files outlive runs; the next run creates them again.
        path.unlink(missing_ok=True)
    still_in, unread = _tables_with(declared, policy, identities)
    if removed or still_in or copies:
        print(f"{declared.party} forgot the person: {removed} pins were removed.")
    elif unread:
        print(
            f"{declared.party} has listed the ID as forgotten. No pin had it, and the tables of "
            f"{', '.join(unread)} could not be searched: check the spelling of the ID."
        )
    else:
        print(
            f"{declared.party} does not know this ID: no table and no release has it. It is "
            "listed as forgotten all the same; check its spelling."
        )
    print("No release from the next run on has a row of this person.")
    if copies:
        print(f"Removed from the copies of source tables that runs of {', '.join(copies)} made.")
    received: dict[str, set[str]] = {}
    for entry in entries:
        if entry.artifact != entry.release:
            place = f"{entry.federation}/{entry.run}/{entry.kind}/{declared.party}"
            received.setdefault(entry.receiver, set()).add(place)
    if removed:
        for receiver, places in sorted(received.items()):
            print(
                f"Cannot be recalled: up to {len(places)} artifacts that {receiver} has received, "
                "and models trained on them."
            )
    versions = [
        f"{federation}/{version}"
        for federation in sorted({name for name, _ in _ids_of(declared)})
        for version in Registry(declared.models, federation).versions()
    ]
    if versions:
        print(f"Trained with the person: up to {len(versions)} models here, but not the next one.")
    print(
        "Still here: the row in the party's own table or source, and other intermediate tables of "
        "earlier runs until `opboost store gc` removes those runs."
    )
    if aside:
        print(
            f"Also in the state that `opboost restore` moved aside, until it is deleted: "
            f"{', '.join(aside)}."
        )

    if receipt is not None:
        content = {
            "party": declared.party,
            "at": now(),
            "software": __version__,
            "audit_entry": number_of_entry,
            "audit_head": head,
            "pins_removed": removed,
            "points_removed": points,
            "copies_cleaned": copies,
            "still_in_the_tables_of": still_in,
            "tables_not_searched": unread,
            "artifacts_that_cannot_be_recalled": {
                receiver: sorted(places) for receiver, places in received.items() if removed
            },
            "models_trained_here_before": versions,
        }
        receipt.write_text(f"{json.dumps(content, indent=1)}\n", encoding="utf-8")
        print(f"Receipt: {receipt}. `opboost audit show` has its entry, number {number_of_entry}.")


def _ids_of(site: "Site") -> "list[tuple[str, IdColumn]]":
    """Return all federations that the party ever agreed to, in order, with their ID columns."""
    from opboost_ops.config.federation import IdColumn
    from opboost_ops.exchange.party_state import agreements_of

    return [
        (agreed.federation, IdColumn.model_validate(agreed.content["federation"]["id"]))
        for agreed in agreements_of(site).agreements
    ]


def _tables_with(
    site: "Site", policy: "Policy", identities: list[str | int]
) -> tuple[list[str], list[str]]:
    """Return the federations whose tables contain a person, and those that were not checked."""
    import polars as pl

    from opboost_ops.config.source import Source
    from opboost_ops.tables.parquet import files_of, scan_common

    names = dict(_ids_of(site))
    federations: list[str] = []
    unread: list[str] = []
    for federation, tables in site.tables.items():
        declared = names.get(federation)
        name = "" if declared is None else declared.column
        column = policy.raw_column(name, name)
        derived = declared is not None and declared.is_made
        for path in (tables.train, tables.score):
            if path is None:
                continue
            if isinstance(path, Source) or derived:
                # Only a run reads the source or derives IDs: check only local tables as they are.
                unread.append(federation)
                continue
            try:
                ids = scan_common(files_of(path), site.party, {})[0]
                ids = ids.select(pl.col(column).cast(pl.String))
                rows = ids.filter(pl.col(column).is_in([str(i) for i in identities]))
                if rows.collect(engine="streaming").height:
                    federations.append(federation)
            except (OSError, pl.exceptions.PolarsError):
                unread.append(federation)
    return federations, sorted(set(unread) - set(federations))

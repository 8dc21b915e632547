"""`opboost store`, `audit`, `verify`: published artifacts, the audit log, and verification."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from opboost_ops.cli.arguments import AsJson, SiteFolder

if TYPE_CHECKING:
    from datetime import datetime

    from opboost_ops.config.site import Site
    from opboost_ops.exchange.audit import Audit
    from opboost_ops.exchange.store.store import Store


#: Age in seconds at which an unfinished file was abandoned by its writer.
_ABANDONED = 86_400.0

store_app = typer.Typer(help="List and clean up a party's store.", no_args_is_help=True)

audit_app = typer.Typer(help="Show a party's audit log.", no_args_is_help=True)


@store_app.command("list")
def list_artifacts(
    site: SiteFolder,
    as_json: AsJson = False,
) -> None:
    """List the published artifacts."""
    import json

    from opboost_ops.config.loading import load_site
    from opboost_ops.exchange.store.store import open_store

    declared = load_site(site / "site.yaml")
    listed = open_store(declared.store).list("")
    if as_json:
        print(json.dumps(listed))
        return
    heads = ("federation", "run", "kind", "party")
    from opboost_ops.cli.output import print_table

    print_table(f"{declared.party}: store", heads, (place.split("/", 3) for place in listed))
    print(f"{len(listed)} {'artifact' if len(listed) == 1 else 'artifacts'}.")


@store_app.command("gc")
def gc(
    site: SiteFolder,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List what would be removed.")] = False,
) -> None:
    """Remove what crashed writers left behind, and runs older than `keep_runs_days`.

    A run's age counts from its last entry in this party's audit log. The run is removed from the
    store and from the party's home folder. Runs that the log does not know stay.
    """
    import datetime

    from opboost_ops.config.loading import load_site
    from opboost_ops.exchange.party_state import open_state
    from opboost_ops.exchange.store.store import open_store
    from opboost_ops.pipeline.home import cached_files
    from opboost_ops.pipeline.party.trust import require_known_store
    from opboost_ops.reports.display.tables import plain

    declared = load_site(site / "site.yaml")
    store = open_store(declared.store)
    verb = "Would remove" if dry_run else "Removed"
    runs = 0
    # In a different store, runs would seem to have no artifacts, and their home folders be deleted.
    for federation in declared.tables:
        require_known_store(declared, store, federation)
    parts = (store.garbage if dry_run else store.collect)(_ABANDONED)
    for part in parts:
        print(f"{verb} {plain(part)}, left behind by a writer that did not finish.")
    if declared.keep_runs_days is not None:
        days = datetime.timedelta(declared.keep_runs_days)
        before = datetime.datetime.now(datetime.UTC) - days
        with open_state(declared) as state:
            runs = _retire_runs(declared, store, state.audit, before, dry_run)
        for path in cached_files(declared.home):
            # A file that is still needed is created again.
            if not dry_run and path.stat().st_mtime < before.timestamp():
                path.unlink()
    print(f"{verb} {len(parts)} unfinished and {runs} old.")


def _retire_runs(
    site: "Site", store: "Store", audit: "Audit", before: "datetime", dry: bool
) -> int:
    import shutil

    # A forged log could cause the removal of a run that is still needed.
    audit.verify()
    removed = 0
    for (federation, run), last in sorted(_last_used(audit).items()):
        place, home = f"{federation}/{run}", site.home / federation / run
        count = len(store.list(place))
        if last >= before or not (count or home.is_dir()):
            continue
        if not dry:
            # Logged first: after a crash the log names the run, and the next call removes the rest.
            audit.add("removed", place, site.party, detail=f"{count} artifacts, by retention")
            store.remove_run(federation, run)
            if home.is_dir():
                shutil.rmtree(home)
        verb = "Would remove" if dry else "Removed"
        print(f"{verb} {place}: {count} artifacts and the home folder, last used {last:%Y-%m-%d}.")
        removed += 1
    return removed


def _last_used(audit: "Audit") -> "dict[tuple[str, str], datetime]":
    import datetime

    last: dict[tuple[str, str], datetime.datetime] = {}
    for _, entry, _ in audit.entries():
        parts = entry.place.split("/")
        # Only artifacts and messages have places of this length; a removal does not use a run.
        if entry.action != "removed" and len(parts) in (4, 5):
            run = (parts[0], parts[1])
            at = datetime.datetime.fromisoformat(entry.at)
            last[run] = max(at, last.get(run, at))
    return last


@audit_app.callback()
def _commands() -> None:
    """Make Typer require the subcommand's name, although there is only one."""


@audit_app.command("show")
def show_audit_log(
    site: SiteFolder,
    head: Annotated[
        str | None, typer.Option(help="A hash noted earlier; the log must still contain it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Verify the chain of a party's audit log, and print its entries."""
    import json

    from opboost_ops.config.loading import load_site
    from opboost_ops.exchange.party_state import open_state

    declared = load_site(site / "site.yaml")
    party = declared.party
    with open_state(declared) as state:
        count, last = state.audit.verify(head)
        # Exclude entries that another process has added since the verification.
        entries = [line for line in state.audit.entries() if line[0] <= count]
    if as_json:
        listed = [
            {"number": number, **entry.model_dump(mode="json"), "hash": hash_}
            for number, entry, hash_ in entries
        ]
        print(json.dumps({"party": party, "count": count, "head": last, "entries": listed}))
        return
    from opboost_ops.cli.output import print_table

    rows = (
        (number, entry.at[:19], entry.action, entry.place, entry.party, entry.artifact[:16],
         entry.detail)
        for number, entry, _ in entries
    )  # fmt: skip
    heads = ("#", "at", "action", "place", "party", "artifact", "detail")
    print_table(f"{party}: audit log, times in UTC", heads, rows)
    print(f"{count} {'entry' if count == 1 else 'entries'}, unbroken.")
    print(f"Head: {last}")
    if head is not None:
        print("The noted hash is in it.")


def verify_command(
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="PLACE...", help="A federation's folder, a party's folder, or a store's."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Verify the files of finished runs with a second implementation of the promises.

    Exits with 0 if nothing is broken, 1 if a promise is broken, 2 if a place cannot be read.
    """
    from opboost_ops.verifier import InvalidPlaceError, verify

    try:
        outcomes = verify(places)
    except InvalidPlaceError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from None
    if as_json:
        print(json.dumps([outcome.to_json() for outcome in outcomes], indent=1))
    else:
        for outcome in outcomes:
            print("\n".join(outcome.lines()))
    raise typer.Exit(1 if any(outcome.is_broken for outcome in outcomes) else 0)

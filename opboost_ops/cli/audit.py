"""`opboost audit`: what a party sent, received, rejected and answered."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opboost_ops.cli.arguments import AsCsv, AsJson
from opboost_ops.cli.forms import one_form, print_csv

if TYPE_CHECKING:
    from opboost_ops.exchange.audit import Audit

app = typer.Typer(help="Show a party's audit log.", no_args_is_help=True)

_Site = Annotated[Path, typer.Argument(help="Folder of the party's site.yaml.")]


@app.callback()
def _commands() -> None:
    """Commands are always named, also while there is only one."""


@app.command("show")
def show(
    site: _Site,
    head: Annotated[
        str | None, typer.Option(help="A hash noted earlier; the log must still contain it.")
    ] = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Verify the chain of a party's audit log, and print its entries."""
    import json

    from opboost_ops.exchange.audit import Entry

    one_form(as_json, as_csv)
    with _opened(site) as (party, audit):
        count, last = audit.verify(head)
        # What another process has added since then was not verified.
        entries = [found for found in audit.entries() if found[0] <= count]
    if as_json or as_csv:
        listed = [
            {"number": number, **entry.model_dump(mode="json"), "hash": hash_}
            for number, entry, hash_ in entries
        ]
        if as_csv:
            print_csv(("number", *Entry.model_fields, "hash"), listed)
        else:
            print(json.dumps({"party": party, "count": count, "head": last, "entries": listed}))
        return
    from opboost_ops.cli.printing import console as wide
    from opboost_ops.cli.printing import plain, table

    shown = table(
        f"{party}: audit log, times in UTC",
        "#",
        "at",
        "action",
        "place",
        "party",
        "artifact",
        "detail",
    )
    for number, entry, _ in entries:
        cells = (number, entry.at[:19], entry.action, entry.place, entry.party)
        shown.add_row(*map(plain, (*cells, entry.artifact[:16], entry.detail)))
    wide().print(shown)
    print(f"{count} {'entry' if count == 1 else 'entries'}, unbroken.")
    print(f"Head: {last}")
    if head is not None:
        print("The noted hash is in it.")


@contextmanager
def _opened(site: Path) -> Iterator[tuple[str, "Audit"]]:
    from opboost_ops.config.loading import load_site
    from opboost_ops.exchange.party_state import open_state

    declared = load_site(site / "site.yaml")
    with open_state(declared) as state:
        yield declared.party, state.audit

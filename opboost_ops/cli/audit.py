"""`opboost audit`: what a party sent, received, rejected and answered."""

from typing import Annotated

import typer

from opboost_ops.cli.arguments import AsJson, Site

app = typer.Typer(help="Show a party's audit log.", no_args_is_help=True)


@app.callback()
def _commands() -> None:
    """Commands are always named, also while there is only one."""


@app.command("show")
def show(
    site: Site,
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
        # What another process has added since then was not verified.
        entries = [line for line in state.audit.entries() if line[0] <= count]
    if as_json:
        listed = [
            {"number": number, **entry.model_dump(mode="json"), "hash": hash_}
            for number, entry, hash_ in entries
        ]
        print(json.dumps({"party": party, "count": count, "head": last, "entries": listed}))
        return
    from opboost_ops.cli.output.printing import print_table

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

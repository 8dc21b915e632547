"""`opboost ledger`: what a party has released, what it cost, what is left."""

from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from opboost_ops.cli.arguments import AsCsv, AsJson, Site
from opboost_ops.cli.forms import one_form, print_csv
from opboost_ops.errors import ConfigError

app = typer.Typer(help="Show and repair a party's privacy ledger.", no_args_is_help=True)


@app.command("show")
def show(
    site: Site,
    people: Annotated[
        bool,
        typer.Option("--people", help="Also what cells have released; keep this inside the party."),
    ] = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Print each column's worst case and budget, and all exact disclosures."""
    import json

    from opboost_ops.cli.ledger_words import (
        COLUMN_FIELDS,
        both_readings,
        column_entry,
        people_blocks,
        people_entry,
    )
    from opboost_ops.config.loading import load_party
    from opboost_ops.exchange.party_state import open_state, reuse_open_state
    from opboost_ops.privacy import statement
    from opboost_ops.privacy.missing_caps import missing_caps, too_narrow
    from opboost_ops.privacy.model_account import account_of, more_such
    from opboost_ops.privacy.people import people as of_people
    from opboost_ops.views.ledger import ledger_of

    one_form(as_json, as_csv)
    declared, policy = load_party(site / "site.yaml")
    with reuse_open_state(), open_state(declared) as state:
        view = ledger_of(declared, policy)
        releases = [line for _, line in view.entries]
        inside = of_people(releases, state.cells) if people else None
    forecasts, words = view.forecasts, statement.protections(releases)
    budget = policy.model_budget
    columns = [
        {**column_entry(uuid, found), "mechanism": words.get(uuid)}
        for uuid, found in forecasts.items()
    ]
    if as_csv:
        print_csv(COLUMN_FIELDS, columns)
        return
    if as_json:
        result: dict[str, Any] = {
            "party": declared.party,
            "columns": columns,
            **both_readings(forecasts),
            "models": {
                **account_of(releases, budget).document,
                "budget": None if budget is None else budget.model_dump(),
                "more": None if budget is None else more_such(releases, budget),
            },
            "exact": [asdict(line) for line in statement.exact_lines(releases)],
            "left_open": [
                *missing_caps(policy),
                *filter(None, map(too_narrow, forecasts.values())),
            ],
        }
        if inside is not None:
            result["people"] = people_entry(inside)
        print(json.dumps(result))
        return
    from opboost_ops.cli.printing import print_blocks
    from opboost_ops.display.blocks import Heading, Note
    from opboost_ops.views import ledger_tables

    protected = [f"{one.feature}: {words[key]}" for key, one in forecasts.items() if key in words]
    print_blocks(
        [
            Heading(f"{declared.party}: privacy ledger"),
            *ledger_tables.open_notes(policy, forecasts),
            *([ledger_tables.totals(forecasts, view, view.entries)] if forecasts else []),
            ledger_tables.columns_table(forecasts, policy.all_features),
            *([Note("", "How they are protected:", "", tuple(protected))] if protected else []),
            *(people_blocks(inside) if inside is not None else []),
            *ledger_tables.models_blocks(view.entries, view.entries, budget),
            ledger_tables.exact_table(view.entries),
        ]
    )


@app.command("check")
def check(
    site: Site,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Compare the database with store, checkpoints and cell files; exit 1 on a gap."""
    import json

    from opboost_ops.config.loading import load_site
    from opboost_ops.exchange.party_state import LostDatabase, open_state
    from opboost_ops.run.rollback import Gap
    from opboost_ops.run.rollback import check as find_gaps

    one_form(as_json, as_csv)
    declared = load_site(site / "site.yaml")
    gaps = find_gaps(declared)
    lines, entries, head = 0, 0, ""
    try:
        with open_state(declared) as state:
            lines = len(state.ledger.releases())
            entries, head = state.audit.head()
    except LostDatabase:
        pass
    if as_json:
        found = {"party": declared.party, "lines": lines, "entries": entries, "head": head}
        print(json.dumps({**found, "gaps": [asdict(gap) for gap in gaps]}))
    elif as_csv:
        print_csv([field.name for field in fields(Gap)], map(asdict, gaps))
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
        typer.Option("--yes", help="Charge the missing releases, and accept the present store."),
    ] = False,
) -> None:
    """Charge releases that the ledger has lost, or accept another store."""
    from opboost_ops.config.loading import load_party
    from opboost_ops.run.recovery import recover as charge
    from opboost_ops.run.rollback import check as find_gaps

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
            f"Recovery would charge {lost} gaps at the declared worst case, permanently.",
            "Restore the newest backup, which costs less; or add --yes. Nothing was changed.",
        )
    done = charge(declared, policy)
    if done.stores:
        print(
            f"{declared.party}: runs of {', '.join(done.stores)} use the store that is there now, "
            "and no other one."
        )
    print(
        f"{declared.party}: {done.releases} missing releases and {done.states} lost cell states "
        "were charged at the declared worst case."
    )


@app.command("export")
def export(
    site: Site,
    out: Annotated[Path, typer.Option(help="A .csv or .json file.")],
) -> None:
    """Write all entries, oldest first."""
    import json

    from opboost_ops.config.loading import load_site
    from opboost_ops.display.spreadsheets import csv_text
    from opboost_ops.exchange.party_state import open_state
    from opboost_ops.privacy.statement import PLAIN_FIELDS, plain_line

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
    else:
        raise ConfigError(f"{out.name} is neither .csv nor .json.", "Name another file.")
    print(f"Wrote {len(dated)} lines to {out}.")

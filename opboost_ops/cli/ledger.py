"""`opboost ledger`: what a party has released, what it cost, what is left."""

from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from opboost_ops.cli.arguments import AsCsv, AsJson
from opboost_ops.cli.forms import one_form, print_csv
from opboost_ops.errors import ConfigError

app = typer.Typer(help="What a party released, and what it cost.", no_args_is_help=True)

Site = Annotated[Path, typer.Argument(help="Folder of the party's site.yaml.")]


@app.callback()
def _commands() -> None:
    """Commands are always named, also while there is only one."""


@app.command("show")
def show(
    site: Site,
    people: Annotated[
        bool, typer.Option("--people", help="Also what cells have released; never show it around.")
    ] = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Worst case of every column, how far it can still grow, its budget, and what is exact."""
    import json

    from opboost_ops.cli.ledger_words import (
        COLUMN_FIELDS,
        both_readings,
        column_entry,
        models_words,
        people_entry,
        print_statement,
    )
    from opboost_ops.config.loading import POLICY, load_policy, load_site
    from opboost_ops.exchange.books import open_books
    from opboost_ops.privacy import statement
    from opboost_ops.privacy.left_open import left_open, too_narrow
    from opboost_ops.privacy.model_account import account_of, more_such
    from opboost_ops.privacy.people import people as of_people
    from opboost_ops.stages.held import last_held

    one_form(as_json, as_csv)
    declared, policy = load_site(site / "site.yaml"), load_policy(site / POLICY)
    with open_books(declared) as books:
        releases = books.ledger.releases()
        inside = of_people(releases, books.cells) if people else None
    held = last_held(declared) if people else []
    forecasts = statement.forecasts(releases, policy)
    words = statement.protections(releases)
    exact = [asdict(line) for line in statement.exact_lines(releases)]
    budget = policy.model_budget
    models = account_of(releases, budget)
    more = None if budget is None else more_such(releases, budget)
    weak = [*left_open(policy), *filter(None, (too_narrow(f) for f in forecasts.values()))]
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
                **models.document,
                "budget": None if budget is None else budget.model_dump(),
                "more": more,
            },
            "exact": exact,
            "left_open": weak,
        }
        if inside is not None:
            result["people"] = {**people_entry(inside), "last_draw": held}
        print(json.dumps(result))
        return
    print_statement(declared.party, forecasts, words, exact, inside, policy.all_features)
    for told in held:
        typer.echo(
            f"In run {told['run']} {told['held']:.1%} of the cells of {told['feature']} gave an "
            f"earlier value, which moves {told['moved']:.1%} of the column; keep that at home."
        )
    for line in weak:
        typer.secho(line, fg="red")
    for line in models_words(models, budget, more):
        print(line)


@app.command("check")
def check(
    site: Site,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Hold the ledger against cells, audit log, home and store; end with 1 where one lacks much."""
    import json

    from opboost_ops.config.loading import load_site
    from opboost_ops.exchange.books import LostBooks, open_books
    from opboost_ops.run.comparisons import Gap
    from opboost_ops.run.gaps import check as find_gaps

    one_form(as_json, as_csv)
    declared = load_site(site / "site.yaml")
    gaps = find_gaps(declared)
    lines, entries, head = 0, 0, ""
    try:
        with open_books(declared) as books:
            lines = len(books.ledger.releases())
            entries, head = books.audit.head()
    except LostBooks:
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
            f"{lost} gaps in the books of {declared.party}, and {len(gaps) - lost} lines are "
            "charged of which it is not known that they were published.",
            "docs/runbook.md says what to do about each; a run that would release over a gap is "
            "refused.",
        )


@app.command("recover")
def recover(
    site: Site,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Charge what was lost, at worst where it is not known."),
    ] = False,
) -> None:
    """Rebuild what the books have lost, from own artifacts and plans; a backup is put beside."""
    from opboost_ops.config.loading import POLICY, load_policy, load_site
    from opboost_ops.run.gaps import check as find_gaps
    from opboost_ops.run.recovery import recover as rebuild

    declared, policy = load_site(site / "site.yaml"), load_policy(site / POLICY)
    gaps = [gap for gap in find_gaps(declared) if gap.lacks != "open"]
    if not gaps:
        print(f"{declared.party}: the books have lost nothing.")
        return
    if not yes:
        for gap in gaps:
            print(gap)
        raise ConfigError(
            f"{len(gaps)} gaps are charged by what is left of them, at the worst case, for good.",
            "Put the newest copies back, which costs nothing; or say --yes. Nothing was changed.",
        )
    done = rebuild(declared, policy)
    draws = sum(line.draw is not None for line in done.lines)
    print(
        f"{declared.party}: {len(done.lines) - draws} lines and {draws} draws were rebuilt, "
        f"{done.entries} entries of the audit log, {done.heads} heads; {done.accepted} cell states "
        "go on, each charged for what it cannot tell. What there was lies beside it."
    )
    if done.left:
        print("\n".join(done.left))
        raise ConfigError(f"{len(done.left)} gaps are left.", "docs/runbook.md says what to do.")


@app.command("accept")
def accept(
    site: Site,
    feature: Annotated[
        list[str] | None, typer.Option("--feature", help="Whose; all that are lost when absent.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Charge what the lost states cannot tell.")
    ] = False,
) -> None:
    """Go on without cell states that are lost or older than the ledger, at the cap once more."""
    from opboost_ops.cli.ledger_words import in_words, plain
    from opboost_ops.config.loading import POLICY, load_policy, load_site
    from opboost_ops.exchange.books import open_books
    from opboost_ops.privacy.lost import accept as accept_lost
    from opboost_ops.privacy.lost import cost_of, lost_states

    declared, policy = load_site(site / "site.yaml"), load_policy(site / POLICY)
    names = feature or []
    with open_books(declared) as books:
        found = [
            state
            for state in lost_states(books.ledger.releases(), books.cells)
            if not names or (state.last.feature or "").partition("=")[0] in names
        ]
        for state in found:
            line, cost = cost_of(state, policy, books.cells)
            draw, last = line.draw, state.last.draw
            if draw is None or last is None:
                continue
            print(
                f"{line.feature}: its state holds draw {state.held} of {last.number}; the worst "
                f"case rises from {last.worst} to {draw.worst} values, loss(R-L) by "
                f"{in_words(plain(cost))}."
            )
        if not found:
            print(f"{declared.party}: no cell state that is needed is lost.")
            return
        if not yes:
            raise ConfigError(
                "Cells may release as many values as the cap allows once more.",
                "Put the newest states back; or say --yes if that is meant. Nothing was changed.",
            )
        lines = accept_lost(books.database, books.cells, policy, names)
    print(f"{declared.party}: {len(lines)} keys go on, each charged for what it cannot tell.")


@app.command("export")
def export(
    site: Site,
    out: Annotated[Path, typer.Option(help="A .csv or .json file.")],
) -> None:
    """Write all lines, oldest first."""
    import csv
    import json

    from opboost_ops.config.loading import load_site
    from opboost_ops.exchange.books import open_books
    from opboost_ops.privacy.statement import PLAIN_FIELDS, plain_line

    declared = load_site(site / "site.yaml")
    with open_books(declared) as books:
        dated = books.ledger.dated()
    if out.suffix == ".json":
        lines = [{"recorded_at": at, **line.model_dump(mode="json")} for at, line in dated]
        out.write_text(json.dumps(lines, indent=1), encoding="utf-8")
    elif out.suffix == ".csv":
        with out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, PLAIN_FIELDS)
            writer.writeheader()
            writer.writerows(plain_line(at, line) for at, line in dated)
    else:
        raise ConfigError(f"{out.name} is neither .csv nor .json.", "Name another file.")
    print(f"Wrote {len(dated)} lines to {out}.")

"""`opboost ledger`: what a party has released, what it cost, what is left."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opboost_ops.errors import ConfigError

if TYPE_CHECKING:
    from uuid import UUID

    from opboost_ops.privacy.accountant import Forecast
    from opboost_ops.privacy.people import People

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
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line on stdout.")] = False,
) -> None:
    """Worst case of every column by releases x loss, its budget, and what is exact."""
    import json

    from opboost_ops.config.loading import POLICY, load_policy, load_site
    from opboost_ops.exchange.books import open_books
    from opboost_ops.privacy import statement
    from opboost_ops.privacy.accountant import model_delta, model_epsilon
    from opboost_ops.privacy.left_open import left_open, too_narrow
    from opboost_ops.privacy.people import people as of_people

    declared, policy = load_site(site / "site.yaml"), load_policy(site / POLICY)
    with open_books(declared) as books:
        releases = books.ledger.releases()
        inside = of_people(releases, books.cells) if people else None
    forecasts = statement.forecasts(releases, policy)
    words = statement.protections(releases)
    exact = [asdict(line) for line in statement.exact_lines(releases)]
    weak = [*left_open(policy), *filter(None, (too_narrow(f) for f in forecasts.values()))]
    if as_json:
        result: dict[str, Any] = {
            "party": declared.party,
            "columns": [
                {**_entry(uuid, f), "mechanism": words.get(uuid)} for uuid, f in forecasts.items()
            ],
            **_readings(forecasts),
            "models": {
                "trainings": sum(release.kind == "model" for release in releases),
                "epsilon": float(model_epsilon(releases)),
                "delta": model_delta(releases),
                "budget_epsilon": policy.models.budget_epsilon,
            },
            "exact": exact,
            "left_open": weak,
        }
        if inside is not None:
            result["people"] = _people(inside)
        print(json.dumps(result))
        return
    _print(declared.party, forecasts, words, exact, inside)
    for line in weak:
        typer.secho(line, fg="red")
    spent = model_epsilon(releases)
    if spent:
        cap = policy.models.budget_epsilon
        limit = "" if cap is None else f" of {cap:g}"
        delta = model_delta(releases)
        at = f" at delta {delta:g}" if delta else ""
        print(
            f"Models: epsilon {float(spent):g}{limit}{at} for a row added or removed, "
            f"{2 * float(spent):g} for a row replaced."
        )


@app.command("check")
def check(site: Site) -> None:
    """Look for releases that were charged and not completed, and for a broken audit log."""
    from opboost_ops.config.loading import load_site
    from opboost_ops.exchange.books import open_books

    declared = load_site(site / "site.yaml")
    with open_books(declared) as books:
        entries, head = books.audit.verify()
        open_ones = books.ledger.uncommitted()
        lines = len(books.ledger.releases())
    print(f"{declared.party}: {lines} lines, {entries} audit entries, head {head[:16]}.")
    for release in open_ones:
        print(
            f"Reserved and not completed: {release.kind} of run {release.run}"
            f"{f', {release.feature}' if release.feature else ''}."
        )
    if open_ones:
        raise ConfigError(
            f"{len(open_ones)} lines are charged, and it is not known that they were published.",
            "Clear the run's task `publish`: it completes its own reservation at no further cost.",
        )


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


def _entry(uuid: "UUID", found: "Forecast") -> dict[str, Any]:
    account = found.account
    return {
        "column": str(uuid),
        "feature": found.feature,
        "releases": account.releases,
        "loss_1": _number(account.step),
        "loss_whole": _number(account.whole),
        "budget_1": found.rule.budget_1,
        "budget_whole": found.rule.budget_whole,
        "retrainings_left": found.retrainings,
        "least_cell_width": account.least_cell,
    }


def _readings(forecasts: "dict[UUID, Forecast]") -> dict[str, Any]:
    """A person's loss, summed over features, and FederBoost's reading of it by single elements."""
    from opboost_ops.privacy.accountant import total

    ends = [(f.account.step, f.account.whole) for f in forecasts.values()]
    steps, wholes = [step for step, _ in ends], [whole for _, whole in ends]
    return {
        "person": {"loss_1": _number(total(steps)), "loss_whole": _number(total(wholes))},
        "element": {
            "loss_1": _number(max(steps, default=0)),
            "loss_whole": _number(max(wholes, default=0)),
        },
    }


def _people(found: "People") -> dict[str, Any]:
    return {
        "loss_1": _number(found.step),
        "loss_whole": _number(found.whole),
        "columns": [
            {
                "feature": column.feature,
                "people": column.people,
                "most_changes": column.changes,
                "loss_1": _number(column.step),
                "loss_whole": _number(column.whole),
            }
            for column in found.columns
        ],
    }


def _number(value: Any) -> float | str:
    return "inf" if value == float("inf") else float(value)


def _print(
    party: str,
    forecasts: "dict[UUID, Forecast]",
    words: "dict[UUID, str]",
    exact: list[dict[str, Any]],
    inside: "People | None",
) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(title=f"{party}: worst case by column, seen from outside")
    for head in ("feature", "releases", "loss(1)", "loss(R-L)", "budgets", "retrainings left"):
        table.add_column(head)
    for uuid, found in forecasts.items():
        entry = _entry(uuid, found)
        budgets = " / ".join(
            "none" if b is None else f"{b:g}" for b in (entry["budget_1"], entry["budget_whole"])
        )
        left = "no budget" if found.retrainings is None else str(found.retrainings)
        sums = (_text(entry["loss_1"]), _text(entry["loss_whole"]))
        table.add_row(found.feature, str(entry["releases"]), *sums, budgets, left)
        if entry["least_cell_width"] is not None:
            width = f"{entry['least_cell_width']:g}"
            console.print(f"{found.feature}: cells of {width} are disclosed exactly.")
    console.print(table)
    for uuid, found in forecasts.items():
        console.print(f"{found.feature}: {words.get(uuid, 'nothing randomised was released')}.")
    readings = _readings(forecasts)
    for name, whose in (("person", "A person, all features"), ("element", "A single element")):
        one = readings[name]
        console.print(
            f"{whose}: loss(1) {_text(one['loss_1'])}, loss(R-L) {_text(one['loss_whole'])}."
        )
    if inside is not None:
        table = Table(title="Inside: what cells have released; keep it at home")
        for head in ("feature", "people", "most values of a cell", "loss(1)", "loss(R-L)"):
            table.add_column(head)
        for column in _people(inside)["columns"]:
            sums = (_text(column["loss_1"]), _text(column["loss_whole"]))
            counts = (str(column["people"]), str(column["most_changes"]))
            table.add_row(column["feature"], *counts, *sums)
        console.print(table)
        ends = (_text(_number(inside.step)), _text(_number(inside.whole)))
        console.print(f"The person charged most: loss(1) {ends[0]}, loss(R-L) {ends[1]}.")
    console.print("Exact, no epsilon:")
    for line in exact:
        console.print(
            f"  {line['times']} x {line['kind']} to {line['receiver']}: {line['discloses']}"
        )


def _text(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.3f}"

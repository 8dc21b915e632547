"""The privacy ledger's page: what a party released, what it cost, and what is left."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from opboost_ops.config.policy import AllFeatures, Policy
from opboost_ops.config.site import Site
from opboost_ops.display.blocks import (
    Block,
    Cell,
    Fact,
    Facts,
    Note,
    State,
    Table,
    count,
    moment,
    number,
)
from opboost_ops.exchange.books import open_books
from opboost_ops.pages.deployment import Query, of_books
from opboost_ops.pages.kept_ledger import ledger_of, waiting_of
from opboost_ops.pages.kinds import kind_words
from opboost_ops.pages.ledger_models import models
from opboost_ops.pages.ledger_pictures import history, loss_curves
from opboost_ops.pages.ledger_refusals import refusals
from opboost_ops.privacy.accountant import Forecast, Loss, total
from opboost_ops.privacy.events import Release
from opboost_ops.privacy.left_open import left_open, too_narrow
from opboost_ops.privacy.lines import Lines
from opboost_ops.privacy.lost import lost_states
from opboost_ops.privacy.statement import exact_counted, forecasts_of

#: How many lines a page shows.
_LINES = 20


def build(party: str, query: Query) -> list[Block]:
    """A party's ledger.

    Args:
        party: Whose.
        query: What is asked for.
    """
    absent = "Nothing was released yet: the party has no ledger."
    return of_books(party, absent, lambda site, policy: _page(site, policy, query))


def _page(site: Site, policy: Policy, query: Query) -> list[Block]:
    ledger = ledger_of(site)
    waiting = waiting_of(site)
    with open_books(site) as books:
        lost = lost_states(ledger.drawn, books.cells)
    seen = {name for name in ledger.federations if name == "all" or query.sees(name)}
    dated = ledger.lines.of_forms(lambda line: line.federation in seen)
    refused = refusals(site, query)
    if not dated:
        return [*refused, Note("muted", "Nothing was released yet.")]
    wanted = {name for name in seen if name == "all" or query.wants(name, query.run)}
    shown = dated.of_forms(lambda line: line.federation in wanted)
    if query.run is not None:
        shown = shown.of_run(query.run)
    # Budgets are for all federations: whoever may not see one of them is not told more is left.
    visible = set().union(*(ledger.columns.get(name, ()) for name in seen))
    found = {u: f for u, f in forecasts_of(ledger.accounts, policy).items() if u in visible}
    blocks: list[Block] = [*warnings(waiting, dated), *refused]
    behind = sorted({one.last.feature or "" for one in lost if one.last.column in visible})
    if behind:
        remedy = (
            "Put the newest states back, or see `opboost ledger check`: no run draws until then."
        )
        told = "Cell states are lost, or older than the ledger."
        blocks.append(Note("bad", told, remedy, (", ".join(behind),)))
    weak = [*left_open(policy, found), *filter(None, (too_narrow(f) for f in found.values()))]
    if weak and query.run is None:
        remedy = "Its owner may set them in policy.yaml; `opboost ledger show` lists them, too."
        told = "The policy leaves open what a plan may cost."
        blocks.append(Note("bad", told, remedy, _together(weak)))
    if found:
        blocks.append(_figures(found, policy.all_features, dated))
        blocks += [_columns(found, policy.all_features, shown, query)]
        blocks.append(history(ledger.heights, found))
        curves = (r for r in ledger.protected if r.federation in wanted)
        drawn = curves if query.run is None else (release for _, release in shown)
        blocks.append(loss_curves(drawn))
    if any(line.account == "model" for line, _ in dated.counted):
        # As with features, the budget is for all federations.
        blocks += models(ledger.lines, shown, policy.models.budget_epsilon)
    blocks.append(_exact(shown))
    blocks.append(lines(shown, query, {release.artifact for release in waiting}))
    return blocks


def _together(faults: Iterable[str]) -> tuple[str, ...]:
    """One line for all features that lack the same."""
    lacking: dict[str, list[str]] = {}
    for fault in faults:
        name, has_no, what = fault.partition(" has no ")
        lacking.setdefault(f"{has_no}{what}", []).append(name)
    return tuple(
        f"{', '.join(names)}{what if len(names) == 1 else what.replace(' has ', ' have ', 1)}"
        for what, names in lacking.items()
    )


def warnings(waiting: Sequence[Release], dated: Lines) -> list[Block]:
    """What must be seen first.

    Args:
        waiting: Reservations that were never completed.
        dated: All lines.
    """
    blocks: list[Block] = []
    if any(line.experiment for line, _ in dated.counted):
        blocks.append(
            Note(
                "warn",
                "Some of this was made without any guarantee: with noise from a public seed, or "
                "with edges read off a private table.",
                "Such lines are marked below.",
            )
        )
    if waiting:
        runs = ", ".join(sorted({release.run for release in waiting}))
        blocks.append(
            Note(
                "warn",
                f"{len(waiting)} lines are charged, and it is not known that they were published "
                f"(run {runs}).",
                "Clear the run's task publish: it completes its own reservation at no further "
                "cost.",
            )
        )
    return blocks


def _figures(found: dict[UUID, Forecast], caps: AllFeatures, dated: Lines) -> Facts:
    step = total(f.account.step for f in found.values())
    whole = total(f.account.whole for f in found.values())
    left = [f for f in found.values() if f.retrainings is not None]
    tightest = min(left, key=lambda f: f.retrainings or 0, default=None)
    facts = [
        _total("loss(1)", step, caps.budget_1),
        _total("loss(R-L)", whole, caps.budget_whole),
        Fact("Columns released", str(len(found)), f"{len(dated):,} ledger lines"),
    ]
    if tightest is None and any(f.lasts for f in found.values()):
        facts.append(Fact("Retrainings left", "for ever", "within the budgets", "good"))
    elif tightest is None:
        facts.append(Fact("Retrainings left", "no budget", "policy.yaml sets none", "muted"))
    else:
        fits = tightest.retrainings or 0
        ends = _ends(dated, fits)
        facts.append(
            Fact(
                "Retrainings left",
                str(fits),
                f"until the budget of {tightest.feature} ends{ends}",
                "bad" if fits == 0 else "warn" if fits < 3 else "good",
            )
        )
    return Facts(tuple(facts))


def _total(what: str, loss: Loss, budget: float | None) -> Fact:
    over = budget is not None and float(loss) > budget
    hint = f"{_of(budget)}: overspent by {float(loss) - budget:,.3f}" if over and budget else ""
    state: State = "bad" if over else ""
    return Fact(f"A person, all features: {what}", _loss(loss), hint or _of(budget), state)


def _of(budget: float | None) -> str:
    return "worst case" if budget is None else f"worst case, of {budget:g}"


def _ends(dated: Lines, fits: int) -> str:
    day = pace(dated, fits)
    return f", about {day} at the pace so far" if day else ""


def pace(dated: Lines, fits: int) -> str:
    """The day by which retrainings will be used up at the pace so far; empty if it cannot be told.

    Args:
        dated: Lines with their times, oldest first.
        fits: How many retrainings are left.
    """
    local = dated.of_forms(lambda line: line.account == "local_dp")
    times = sorted(map(datetime.fromisoformat, set(local.times)))
    runs = len(
        {(form.line.federation, run) for form, run in zip(local.forms, local.runs, strict=True)}
    )
    if runs < 2 or fits == 0:
        return ""
    step = (times[-1] - times[0]) / (runs - 1)
    if step < timedelta(hours=1) or step * fits > timedelta(days=3650):
        return ""
    return str((times[-1] + step * fits).date())


def _columns(found: dict[UUID, Forecast], caps: AllFeatures, shown: Lines, query: Query) -> Table:
    narrowed = query.federation is not None or query.run is not None
    here = shown.accounts if narrowed else {}
    exactly = any(forecast.account.least_cell is not None for forecast in found.values())
    rows = []
    for uuid, forecast in found.items():
        if narrowed and uuid not in here:
            continue
        account, rule = forecast.account, forecast.rule
        left = forecast.retrainings
        row = [
            Cell(forecast.feature),
            count(account.releases),
            _values(forecast),
            _spent(account.step, rule.budget_1),
            number(rule.budget_1),
            _left(account.step, rule.budget_1),
            _spent(account.whole, rule.budget_whole),
            number(rule.budget_whole),
            _left(account.whole, rule.budget_whole),
            Cell("for ever" if forecast.lasts else "no budget", state="muted")
            if left is None
            else Cell(f"{left:,}", left, "bad" if left == 0 else "warn" if left < 3 else ""),
            *([number(account.least_cell, 4)] if exactly else []),
        ]
        if narrowed:
            row[3:3] = [_spent(here[uuid].step, None), _spent(here[uuid].whole, None)]
        rows.append(tuple(row))
    if not narrowed and rows:
        step = total(f.account.step for f in found.values())
        whole = total(f.account.whole for f in found.values())
        rows.append(
            (
                Cell("a person, all features"),
                Cell("", ""),
                Cell("", ""),
                _spent(step, caps.budget_1),
                number(caps.budget_1),
                _left(step, caps.budget_1),
                _spent(whole, caps.budget_whole),
                number(caps.budget_whole),
                _left(whole, caps.budget_whole),
                Cell("", ""),
                *([Cell("", "")] if exactly else []),
            )
        )
    names = [
        "feature",
        "draws",
        "values a cell",
        "loss(1)",
        "budget(1)",
        "left(1)",
        "loss(R-L)",
        "budget(R-L)",
        "left(R-L)",
        "retrainings left",
        *(["narrowest exact cell"] if exactly else []),
    ]
    if narrowed:
        names[3:3] = ["loss(1) here", "loss(R-L) here"]
    return Table(
        "columns",
        "What each feature has cost",
        tuple(names),
        tuple(rows),
        "The worst case, from public facts alone: every new draw counts as if every person's value "
        "had changed for it, until the cap on changes ends that. Values a cell: how many different "
        "ones any cell has released at most, over all noise keys. loss(1) bounds a move by one "
        "step of the domain, loss(R-L) one across it. Budgets are for all federations and "
        "runs together.",
    )


def _values(forecast: Forecast) -> Cell:
    """How many different values a cell has released at worst, by its noise keys together."""
    values = sum(key.worst.values for key in forecast.account.keys.values() if not key.bit)
    cap = forecast.rule.max_changes
    return Cell(f"{values:,}", values, title="no cap" if cap is None else f"at most {cap} a key")


def _spent(loss: Loss, budget: float | None) -> Cell:
    cell = number(float(loss))
    if budget is None:
        return cell
    over: State = "bad" if float(loss) > budget else ""
    share = min(1.0, float(loss) / budget)
    return Cell(cell.text, cell.value, over, share=share, limited=True)


def _left(loss: Loss, budget: float | None) -> Cell:
    left = number(None if budget is None else budget - float(loss))
    return replace(left, state="bad") if budget is not None and float(loss) > budget else left


def _exact(shown: Lines) -> Table:
    found = exact_counted(shown.counted)
    return Table(
        "exact",
        "Told exactly, with no epsilon",
        ("times", "what", "told to", "what it discloses"),
        tuple(
            (
                count(line.times),
                Cell(kind_words(line.kind)),
                Cell(line.receiver),
                Cell(line.discloses),
            )
            for line in found
        ),
        "None of this is differentially private, and no budget limits it.",
    )


def lines(dated: Lines, query: Query, attempted: Collection[str] = ()) -> Table:
    """The ledger's lines, newest first.

    Args:
        dated: Lines with their times, oldest first.
        query: What is asked for.
        attempted: Artifacts of which it is not known that they were published.
    """
    page, pager = query.paged(dated[::-1], _LINES, "entries")
    return Table(
        "lines",
        "Ledger lines",
        (
            "reserved (UTC)",
            "federation",
            "run",
            "what",
            "feature",
            "told to",
            "account",
            "loss(1)",
            "loss(R-L)",
            "rows",
            "guarantee",
            "artifact",
        ),
        tuple(
            (
                moment(at),
                Cell(r.federation),
                Cell(r.run, href=f"run?id={r.run}" if r.run else ""),
                Cell(kind_words(r.kind)),
                Cell(r.feature or ""),
                Cell(r.receiver),
                Cell(_account(r)),
                number(float(r.loss.loss[0]) if r.loss else None),
                number(float(r.loss.loss[-1]) if r.loss else None),
                # What tells of no rows is about none.
                count(r.rows or None),
                _guarantee(r, r.artifact in attempted),
                Cell(r.artifact[:12], r.artifact, title=r.artifact),
            )
            for at, r in page
        ),
        pager=pager,
        once=("federation", *(["run"] if query.run else [])),
    )


def _guarantee(release: Release, attempted: bool) -> Cell:
    if attempted:
        return Cell("attempted, not known to be published", state="warn")
    if release.experiment:
        return Cell("none: experiment", state="warn")
    charged = release.account in ("local_dp", "model")
    return Cell("as charged" if charged else "exact, no epsilon")


def _account(release: Release) -> str:
    if release.epsilon is not None:
        return f"{release.kind}, epsilon {release.epsilon:g}"
    return {"local_dp": "local DP"}.get(release.account, release.account)


def _loss(loss: Loss) -> str:
    return number(float(loss)).text

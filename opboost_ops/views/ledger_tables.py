"""The ledger's view as tables, facts and notes, for pages and the terminal."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from uuid import UUID

from opboost_ops.config.policy import AllFeatures, ModelBudget, Policy
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
from opboost_ops.privacy.accountant import Account, Loss, exact, total
from opboost_ops.privacy.budgets import Forecast
from opboost_ops.privacy.events import Release
from opboost_ops.privacy.ledger import Dated
from opboost_ops.privacy.missing_caps import missing_caps, too_narrow
from opboost_ops.privacy.model_account import account_of
from opboost_ops.privacy.statement import exact_lines
from opboost_ops.views.ledger import LedgerView, RemainingRuns, left_of

#: Differentially private models that are listed.
_MODELS = 20

#: Kinds of artifact and of entry whose own name says too little.
_KINDS: Mapping[str, str] = {
    "psi_query": "blinded IDs",
    "psi_answer": "answer to blinded IDs",
    "stopped": "stopped taking part",
    "resumed": "takes part again",
}

_WORST = (
    "The worst case, from public facts alone: every new draw counts as if every person's value had "
    "changed for it, until the cap on changes ends that. loss(1) bounds a move by one step of the "
    "domain, loss(R-L) one across the domain. Budgets are for all federations and runs together."
)


def kind_words(kind: str) -> str:
    """A kind of artifact, or of ledger entry, in words.

    Args:
        kind: Its name.
    """
    return _KINDS.get(kind, kind.replace("_", " "))


def left_fact(left: RemainingRuns, href: str = "") -> Fact:
    """What is left, as a fact."""
    return Fact("Retrainings left", left.text, left.hint, left.state, href)


def left_cell(left: RemainingRuns) -> Cell:
    """What is left, as a cell; a number where it is one."""
    state: State = left.state if left.state in ("bad", "warn") else ""
    return Cell(left.text, left.fits, state, title=left.hint)


def totals(forecasts: Mapping[UUID, Forecast], view: LedgerView, entries: Sequence[Dated]) -> Facts:
    """What all columns have cost a person, and what is left.

    Args:
        forecasts: Of the columns that are shown.
        view: Of the ledger.
        entries: Those that are shown.
    """
    caps = view.policy.all_features
    step = total(f.account.step for f in forecasts.values())
    whole = total(f.account.whole for f in forecasts.values())
    return Facts(
        (
            left_fact(left_of(forecasts.values(), entries, view.person(forecasts.values()))),
            _total("loss(1)", step, caps.budget_1),
            _total("loss(R-L)", whole, caps.budget_whole),
            Fact("Columns released", str(len(forecasts)), f"{len(entries):,} ledger entries"),
        )
    )


def planned_blocks(forecasts: Mapping[UUID, Forecast], view: LedgerView) -> list[Block]:
    """What agreed columns may cost before any run has released them.

    Args:
        forecasts: By column, of accounts of nothing.
        view: Of the ledger.
    """
    rows = []
    for found in forecasts.values():
        keys = found.account.keys.values()
        rows.append(
            (
                Cell(found.feature),
                *(number(float(total(exact(k.loss.loss[end]) for k in keys))) for end in (0, -1)),
                *(number(None if end is None else float(end)) for end in (found.step, found.whole)),
                number(found.rule.budget_1),
                number(found.rule.budget_whole),
                left_cell(left_of([found])),
            )
        )
    runs = ("loss(1) of a run", "loss(R-L) of a run", "loss(1) at the cap", "loss(R-L) at the cap")
    heads = ("feature", *runs, "budget(1)", "budget(R-L)", "retrainings left")
    title = "What each agreed column may cost"
    note = "At worst."
    if any(found.shared for found in forecasts.values()):
        note += " Of a column that several federations release, a run of each."
    return [
        Facts((left_fact(left_of(forecasts.values(), (), view.person(forecasts.values()))),)),
        Table("planned", title, heads, tuple(rows), note),
    ]


def _total(what: str, loss: Loss, budget: float | None) -> Fact:
    hint = "worst case" if budget is None else f"worst case, of {budget:g}"
    state: State = ""
    if budget is not None and float(loss) > budget:
        hint, state = f"{hint}: overspent by {float(loss) - budget:,.3f}", "bad"
    return Fact(f"A person, all features: {what}", number(float(loss)).text, hint, state)


def columns_table(
    forecasts: Mapping[UUID, Forecast],
    caps: AllFeatures,
    here: Mapping[UUID, Account] | None = None,
) -> Table:
    """What each column has cost, its budgets, and what is left of them.

    Args:
        forecasts: By column.
        caps: On the sum over all features.
        here: What the columns have cost in the part of the ledger that is asked for; then only
            these columns are listed.
    """
    exactly = any(one.account.least_cell is not None for one in forecasts.values())
    rows = []
    for uuid, found in forecasts.items():
        if here is not None and uuid not in here:
            continue
        account, rule = found.account, found.rule
        part = [here[uuid].step, here[uuid].whole] if here is not None else []
        rows.append(
            (
                Cell(found.feature),
                count(account.releases),
                _values(found),
                *(number(float(loss)) for loss in part),
                *_budget(account.step, rule.budget_1, found.lasts),
                *_budget(account.whole, rule.budget_whole, found.lasts),
                left_cell(left_of([found])),
                *([number(account.least_cell, 4)] if exactly else []),
            )
        )
    if here is None and rows:
        sums = [total(f.account.step for f in forecasts.values())]
        sums.append(total(f.account.whole for f in forecasts.values()))
        none = Cell("", "")
        lasts = all(found.lasts for found in forecasts.values())
        both = (
            *_budget(sums[0], caps.budget_1, lasts),
            *_budget(sums[1], caps.budget_whole, lasts),
        )
        rows.append((Cell("a person, all features"), none, none, *both, none, *[none] * exactly))
    within = ("loss(1) here", "loss(R-L) here") if here is not None else ()
    ends = ("loss(1)", "budget(1)", "left(1)", "loss(R-L)", "budget(R-L)", "left(R-L)")
    heads = ("feature", "draws", "values a cell", *within, *ends, "retrainings left")
    last = ("narrowest exact cell",) if exactly else ()
    note = f"{_WORST} Values a cell: the most different values any cell has released."
    return Table("columns", "What each feature has cost", (*heads, *last), tuple(rows), note)


def _values(found: Forecast) -> Cell:
    """How many different values a cell has released at worst, by its noise keys together."""
    values = sum(key.worst.values for key in found.account.keys.values() if not key.bit)
    cap = found.rule.max_changes
    return Cell(f"{values:,}", values, title="no cap" if cap is None else f"at most {cap} a key")


def _budget(loss: Loss, budget: float | None, lasts: bool) -> tuple[Cell, Cell, Cell]:
    """What was spent, the budget, and what is left of it; full is no alarm where it lasts."""
    spent = number(float(loss))
    if budget is None:
        return spent, number(None), number(None)
    over: State = "bad" if float(loss) > budget else ""
    left = number(budget - float(loss))
    share = min(1.0, float(loss) / budget) if budget else 1.0
    return (
        Cell(spent.text, spent.value, over, share=share, limited=not lasts or bool(over)),
        number(budget),
        Cell(left.text, left.value, over),
    )


def exact_table(
    entries: Iterable[Dated], title: str = "Disclosed exactly, with no epsilon"
) -> Table:
    """What was disclosed without any epsilon, equal entries as one.

    Args:
        entries: Of the ledger.
        title: Of the table.
    """
    rows = tuple(
        (count(line.times), Cell(kind_words(line.kind)), Cell(line.receiver), Cell(line.discloses))
        for line in exact_lines(line for _, line in entries)
    )
    heads = ("times", "what", "receiver", "what it discloses")
    note = "None of this is differentially private, and no budget limits it."
    return Table("exact", title, heads, rows, note, "Nothing.")


def entries_table(entries: Iterable[Dated], attempted: Collection[str] = ()) -> Table:
    """Ledger entries.

    Args:
        entries: In the order of the table.
        attempted: Artifacts of which it is not known that they were published.
    """
    heads = ("reserved (UTC)", "federation", "run", "what", "feature", "receiver", "account")
    rows = tuple(
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
            # An entry of no rows is about none.
            count(r.rows or None),
            _guarantee(r, r.artifact in attempted),
            Cell(r.artifact[:12], r.artifact, title=r.artifact),
        )
        for at, r in entries
    )
    rest = ("loss(1)", "loss(R-L)", "rows", "guarantee", "artifact")
    return Table("lines", "Ledger entries", (*heads, *rest), rows, once=("federation",))


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


def warnings(waiting: Sequence[Release], entries: Iterable[Dated]) -> list[Block]:
    """What must be seen first: experiments, and entries that were never completed.

    Args:
        waiting: Reservations that were never completed.
        entries: Of the ledger.
    """
    blocks: list[Block] = []
    if any(line.experiment for _, line in entries):
        text = (
            "Some of this was made without any guarantee: with noise from a public seed, or with "
            "edges read off a private table."
        )
        blocks.append(Note("warn", text, "Such entries are marked below."))
    if waiting:
        runs = ", ".join(sorted({release.run for release in waiting}))
        text = f"{len(waiting)} entries are charged and perhaps not published (run {runs})."
        remedy = "Clear the run's failed task: it completes its own reservation at no further cost."
        blocks.append(Note("warn", text, remedy))
    return blocks


def open_notes(policy: Policy, forecasts: Mapping[UUID, Forecast]) -> list[Block]:
    """What the policy leaves open.

    Args:
        policy: The party's.
        forecasts: By column.
    """
    lacking: dict[str, list[str]] = {}
    # One line for all features that lack the same.
    for fault in (*missing_caps(policy, dict(forecasts)), *map(too_narrow, forecasts.values())):
        if fault:
            name, has_no, what = fault.partition(" has no ")
            lacking.setdefault(f"{has_no}{what}", []).append(name)
    lines = tuple(
        f"{', '.join(names)}{what if len(names) == 1 else what.replace(' has ', ' have ', 1)}"
        for what, names in lacking.items()
    )
    text = "The policy leaves open what a plan may cost."
    remedy = "Its owner may set them in policy.yaml."
    return [Note("bad", text, remedy, lines)] if lines else []


def models_blocks(
    everything: Iterable[Dated], shown: Iterable[Dated], budget: ModelBudget | None
) -> list[Block]:
    """What differentially private models have cost together, and an entry for each that is shown.

    Args:
        everything: All of the ledger: the budget is for all federations.
        shown: The entries that are shown.
        budget: The policy's.
    """
    drawn = [(at, line) for at, line in everything if line.account == "model"]
    if not drawn:
        return []
    account = account_of((release for _, release in drawn), budget)
    spent, cap = float(account.epsilon), None if budget is None else budget.epsilon
    at = f" at delta {account.delta:g}" if account.delta else ""
    worst = f"composed{at}" if cap is None else f"composed{at}, of {cap:g}"
    added = f"delta {account.sum_delta:g}" if account.sum_delta else "epsilon alone"
    facts = [
        Fact("Models: epsilon, a row added or removed", number(spent).text, worst),
        Fact("Models: epsilon, a row replaced", number(account.replaced).text, f"composed{at}"),
        Fact("Models: sum of epsilons", number(float(account.sum_epsilon)).text, added),
        Fact("Models trained", f"{account.trainings:,}", "champions or not"),
    ]
    if cap is not None:
        left = max(0.0, cap - spent)
        state: State = "bad" if left == 0 else "good"
        facts.append(Fact("Epsilon left for models", number(left).text, "of policy.yaml", state))
    rows = []
    listed = {line.artifact for _, line in shown}
    for i in [i for i, (_, line) in enumerate(drawn) if line.artifact in listed][-_MODELS:]:
        at, release = drawn[i]
        rows.append(
            (
                moment(at),
                Cell(release.federation),
                Cell(release.run, href=f"run?id={release.run}"),
                Cell(release.kind),
                number(release.epsilon),
                _so_far(account_of((old for _, old in drawn[: i + 1]), budget).epsilon, cap),
                count(release.rows),
                Cell(release.receiver),
            )
        )
    heads = ("reserved (UTC)", "federation", "run", "what", "epsilon", "epsilon so far", "rows")
    note = (
        "Differentially private models, and metrics with noise, of the label holder's own rows. "
        "Trained on the same rows they share one curve, also those that never became champion. "
        "Epsilon is for a row added or removed."
    )
    title = "What models have cost"
    table = Table("models", title, (*heads, "receiver"), tuple(reversed(rows)), note)
    return [Facts(tuple(facts)), table]


def _so_far(spent: Fraction, cap: float | None) -> Cell:
    cell = number(float(spent))
    if cap is None:
        return cell
    return Cell(cell.text, cell.value, share=min(1.0, float(spent) / cap), limited=True)

"""The ledger's view as tables, facts, notes and plots, for pages and the terminal."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from fractions import Fraction

from opboost_ops.config.policy import ModelBudget, Policy
from opboost_ops.exchange.kinds import KINDS
from opboost_ops.privacy.consent.exposure import odds_words
from opboost_ops.privacy.ledger.budgets import account_of
from opboost_ops.privacy.ledger.entries import Dated, LedgerEntry, exact_disclosures
from opboost_ops.privacy.loss import LossCurve
from opboost_ops.privacy.release_records import spent_by_column
from opboost_ops.reports.display.blocks import (
    Block,
    Cell,
    Fact,
    Facts,
    Figure,
    Figures,
    Note,
    State,
    Table,
    finite,
    moment,
    number,
)
from opboost_ops.reports.display.charts import CURVE_KINDS, Curve, chart
from opboost_ops.reports.ledger import (
    ColumnLine,
    LedgerView,
    RemainingReleases,
    remaining_releases,
    sum_of,
)

#: Greatest loss whose odds are shown as a number.
_MAX_LOSS = 700

#: Maximum number of listed differentially private models.
_MAX_MODELS = 20

#: Words for kinds of artifacts and entries whose own name is not enough.
_KINDS: Mapping[str, str] = {
    **{kind.name: kind.words for kind in KINDS.values() if kind.words},
    "stopped": "stopped taking part",
    "resumed": "takes part again",
}

_NOTE = (
    "Each release is charged once, when it opens. Odds: the largest factor by which one release "
    "makes one value likelier than another. Spent and budget add up losses, the logarithms of "
    "odds, over all receivers and releases of a raw column, with its private edges."
)

#: The cost of each raw column at some times.
Heights = Sequence[tuple[str, Mapping[str, float]]]


def kind_words(kind: str) -> str:
    """Return the words for a kind of artifact or ledger entry."""
    return _KINDS.get(kind, kind.replace("_", " "))


def odds_of(loss: float) -> str:
    """Return the maximum odds between any two values after a release, as words.

    Args:
        loss: Loss of the release.
    """
    return f"{odds_words(_odds(loss))} to 1"


def odds_cell(loss: float, symbol: str) -> Cell:
    """Return the odds as a cell, with the loss in its tooltip.

    Args:
        loss: Loss of the release.
        symbol: Symbol of the loss, such as ``loss(1)``.
    """
    return Cell(odds_of(loss), finite(_odds(loss)), title=f"{symbol} {number(loss).text}")


def _odds(loss: float) -> float:
    return math.exp(loss) if loss < _MAX_LOSS else math.inf


def remaining_fact(left: RemainingReleases, href: str = "") -> Fact:
    """Return the remaining releases as a fact."""
    return Fact("Releases left", left.text, left.hint, left.state, href)


def remaining_cell(left: RemainingReleases) -> Cell:
    """Return the remaining releases as a cell."""
    return Cell(left.text, left.more, title=left.hint)


def totals(lines: Sequence[ColumnLine], view: LedgerView, entries: Sequence[Dated]) -> Facts:
    """Return the cost of all columns for a person, and the remaining releases.

    Args:
        lines: The shown columns.
        view: The ledger.
        entries: The shown entries.
    """
    cap = view.policy.all_features.budget
    spent = sum_of(spent_by_column(view.releases))
    budget = "policy.yaml sets no budget" if cap is None else f"budget {cap:g}"
    hint = f"{number(spent).text}, {budget}"
    left = remaining_releases(lines)
    return Facts(
        (
            *([remaining_fact(left)] if left.hint else []),
            Fact("One person, all columns", f"odds {odds_of(spent)}", f"worst case; loss {hint}"),
            Fact(
                "Columns released",
                str(len({line.column for line in lines})),
                f"{len(entries):,} ledger entries",
            ),
        )
    )


def columns_table(lines: Sequence[ColumnLine], planned: bool = False) -> Table:
    """Return each column's releases, their cost, and the cost of the next one.

    Args:
        lines: The columns.
        planned: True if nothing was released yet.
    """
    rows = [
        (
            f"edges of {line.feature}" if line.kind == "edges" else line.feature,
            line.column,
            line.receiver,
            ", ".join(day.isoformat() for day in line.releases) or "none",
            Cell(line.since.isoformat() if line.since else "no open release"),
            odds_cell(float(line.loss), "loss(R-L)"),
            _spent_cell(line),
            number(line.budget),
            _next(line),
        )
        for line in lines
    ]
    heads = (
        "feature",
        "raw column",
        "receiver",
        "releases",
        "values since",
        "odds, any two values",
    )
    title = "What each agreed column will cost" if planned else "What each column has cost"
    return Table("columns", title, (*heads, "spent", "budget", "next release"), rows, _NOTE)


def _spent_cell(line: ColumnLine) -> Cell:
    cell = number(float(line.spent))
    if line.budget is None:
        return cell
    share = min(1.0, float(line.spent) / line.budget)
    return Cell(cell.text, cell.value, share=share)


def _next(line: ColumnLine) -> Cell:
    if line.kind == "edges":
        return Cell("none: drawn once")
    loss = number(float(line.loss)).text
    if line.more is None:
        return Cell(f"{loss}; no budget")
    return Cell(f"{loss}; {'fits' if line.more else 'does not fit'}", line.more)


def exact_table(
    entries: Iterable[Dated], title: str = "Disclosed exactly, with no epsilon"
) -> Table:
    """Return disclosures without an epsilon, with equal ones combined.

    Args:
        entries: Ledger entries.
        title: Title of the table.
    """
    rows = [
        (line.times, kind_words(line.kind), line.receiver, line.discloses)
        for line in exact_disclosures(line for _, line in entries)
    ]
    heads = ("times", "what", "receiver", "what it discloses")
    note = "None of this is differentially private, and no budget limits it."
    return Table("exact", title, heads, rows, note, "Nothing.")


def entries_table(entries: Iterable[Dated], attempted: Collection[str] = ()) -> Table:
    """Return ledger entries as a table.

    Args:
        entries: The entries, in the table's order.
        attempted: Artifacts that may not have been published.
    """
    heads = ("reserved (UTC)", "federation", "run", "what", "feature", "receiver", "account")
    rows = [
        (
            moment(at),
            r.federation,
            Cell(r.run, href=f"run?id={r.run}" if r.run else ""),
            kind_words(r.kind),
            r.feature or "",
            r.receiver,
            _account(r),
            number(float(r.loss.loss[0]) if r.loss else None),
            number(float(r.loss.loss[-1]) if r.loss else None),
            # An entry without rows is about no rows.
            r.rows or None,
            _guarantee(r, r.artifact in attempted),
            Cell(r.artifact[:12], r.artifact, title=r.artifact),
        )
        for at, r in entries
    ]
    rest = ("loss(1)", "loss(R-L)", "rows", "guarantee", "artifact")
    return Table("lines", "Ledger entries", (*heads, *rest), rows, once=("federation",))


def _guarantee(release: LedgerEntry, attempted: bool) -> Cell:
    if attempted:
        return Cell("attempted, not known to be published", state="warn")
    if release.experiment:
        return Cell("none: experiment", state="warn")
    charged = release.account in ("local_dp", "model")
    return Cell("as charged" if charged else "exact, no epsilon")


def _account(release: LedgerEntry) -> str:
    if release.epsilon is not None:
        return f"{release.kind}, epsilon {release.epsilon:g}"
    return {"local_dp": "local DP"}.get(release.account, release.account)


def warnings(waiting: Sequence[LedgerEntry], entries: Iterable[Dated]) -> list[Block]:
    """Return warnings about experiments and incomplete reservations.

    Args:
        waiting: Reservations that were never completed.
        entries: Ledger entries.
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


def open_notes(policy: Policy, lines: Sequence[ColumnLine]) -> list[Block]:
    """Return notes on columns without a budget, and on columns with routed answers of each day.

    Args:
        policy: The party's policy.
        lines: The columns.
    """
    blocks: list[Block] = []
    daily = sorted(name for name, rule in policy.features.items() if rule.routed == "every_run")
    if daily:
        text = "No guarantee covers the routed answers of some columns."
        remedy = "They disclose the exact value of the day of each person queried, in every run."
        blocks.append(Note("bad", text, remedy, (", ".join(daily),)))
    without = sorted({line.feature for line in lines if line.budget is None})
    if without:
        text = "The policy sets no budget for some columns."
        remedy = "Its owner may set `budget` in policy.yaml."
        blocks.append(Note("bad", text, remedy, (", ".join(without),)))
    return blocks


def models_blocks(
    everything: Iterable[Dated], shown: Iterable[Dated], budget: ModelBudget | None
) -> list[Block]:
    """Return the total cost of differentially private models, and a table of the shown ones.

    Args:
        everything: All ledger entries, since the budget spans all federations.
        shown: The shown entries.
        budget: Budget of the policy.
    """
    charges = [(at, line) for at, line in everything if line.account == "model"]
    if not charges:
        return []
    account = account_of((release for _, release in charges), budget)
    spent, cap = float(account.replaced), None if budget is None else budget.epsilon
    at = f" at delta {account.delta:g}" if account.delta else ""
    worst = f"composed{at}" if cap is None else f"composed{at}, of {cap:g}"
    added = f"delta {account.sum_delta:g}" if account.sum_delta else "epsilon alone"
    facts = [
        Fact("Models: epsilon, a row replaced", number(spent).text, worst),
        Fact(
            "Models: epsilon, a row added or removed",
            number(float(account.epsilon)).text,
            f"composed{at}",
        ),
        Fact("Models: sum of epsilons", number(float(account.sum_epsilon)).text, added),
        Fact("Models trained", f"{account.trainings:,}", "champions or not"),
    ]
    if cap is not None:
        left = max(0.0, cap - spent)
        state: State = "bad" if left == 0 else "good"
        facts.append(Fact("Epsilon left for models", number(left).text, "of policy.yaml", state))
    rows = []
    listed = {line.artifact for _, line in shown}
    for i in [i for i, (_, line) in enumerate(charges) if line.artifact in listed][-_MAX_MODELS:]:
        at, release = charges[i]
        rows.append(
            (
                moment(at),
                release.federation,
                Cell(release.run, href=f"run?id={release.run}"),
                release.kind,
                number(release.epsilon),
                _so_far(account_of((old for _, old in charges[: i + 1]), budget).replaced, cap),
                release.rows,
                release.receiver,
            )
        )
    heads = ("reserved (UTC)", "federation", "run", "what", "epsilon", "epsilon so far", "rows")
    note = (
        "Differentially private models, and metrics with noise, of the label holder's own rows. "
        "Trained on the same rows they share one curve, also those that never became champion. "
        "Epsilon is for a row added or removed, epsilon so far for a row replaced."
    )
    title = "What models have cost"
    table = Table("models", title, (*heads, "receiver"), rows[::-1], note)
    return [Facts(facts), table]


def _so_far(spent: Fraction, cap: float | None) -> Cell:
    cell = number(float(spent))
    if cap is None:
        return cell
    return Cell(cell.text, cell.value, share=min(1.0, float(spent) / cap), limited=True)


def history(heights: Heights, lines: Sequence[ColumnLine]) -> Figures:
    """Return a plot of cumulative losses over time: the most expensive columns, and their budgets.

    Args:
        heights: Cost of each raw column at some times, oldest first.
        lines: The columns to plot.
    """
    names = {line.column: line.feature for line in lines}
    budgets = {line.column: line.budget for line in lines}
    order = sorted(lines, key=lambda line: line.spent, reverse=True)
    first, last = (datetime.fromisoformat(heights[i][0]) for i in (0, -1))
    points = {
        column: [
            (datetime.fromisoformat(at).timestamp(), spent[column])
            for at, spent in heights
            if column in spent
        ]
        for column in dict.fromkeys(line.column for line in order)
    }
    curves = [Curve(name, values, steps=True) for name, values in _merge_equal(names, points)]
    caps: dict[float, list[str]] = {}
    for column in points:
        if (cap := budgets[column]) is not None:
            caps.setdefault(cap, []).append(names[column])
    curves += [
        Curve(
            f"budget of {_joined(features)}: {cap:g}",
            [(first.timestamp(), cap), (last.timestamp(), cap)],
            dashed=True,
        )
        for cap, features in sorted(caps.items())
    ]
    shown = "%Y-%m-%d" if (last - first).days > 1 else "%m-%d %H:%M"
    ends = {t.strftime(shown): t for t in (last, first)}
    svg = chart(
        curves,
        title="Sum of loss(R-L) by column over time",
        # Both ends may fall into the same minute.
        x_ticks=[(t.timestamp(), words) for words, t in ends.items()],
    )
    note = f"At most {CURVE_KINDS} different curves, of the columns that cost most."
    return Figures("Charged over time", (Figure(svg, "Sum of loss(R-L)"),), note)


def _merge_equal(
    names: Mapping[str, str], lines: Mapping[str, list[tuple[float, float]]]
) -> list[tuple[str, list[tuple[float, float]]]]:
    """Merge equal curves: features with the same mechanism often cost the same."""
    groups: dict[tuple[tuple[float, float], ...], list[str]] = {}
    for column, points in lines.items():
        groups.setdefault(tuple(points), []).append(names[column])
    return [
        (
            _joined(names),
            [*points],
        )
        for points, names in list(groups.items())[:CURVE_KINDS]
    ]


def _joined(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def loss_curves(entries: Iterable[LedgerEntry]) -> Figures:
    """Return plots of each column's last published loss curve.

    Args:
        entries: Ledger entries, oldest first.
    """
    latest = {e.feature: e.loss for e in entries if e.feature is not None and e.loss is not None}
    figures = [_loss_curve(name, curve) for name, curve in latest.items()]
    return Figures(
        "Loss curves",
        figures,
        "How much more likely an output becomes when a value moves by t steps: the natural "
        "logarithm of the ratio, computed from the very table that was sampled.",
    )


def _loss_curve(name: str, curve: LossCurve) -> Figure:
    values = [float(v) for v in curve.loss]
    points = [(float(t), v) for t, v in enumerate(values, 1)]
    nominal = [(float(t), t * curve.epsilon) for t in (1, len(values))]
    infinite = sum(v == float("inf") for v in values)
    words = f"{name}: {curve.mechanism}"
    if infinite:
        words += f"; infinite from t = {len(values) - infinite + 1}"
    elif not curve.certificate:
        words += "; above t epsilon in places"
    curves = [Curve("loss(t)", points), Curve("t epsilon", nominal, dashed=True)]
    ticks = [(1.0, "1")] + ([(float(len(values)), str(len(values)))] if len(values) > 1 else [])
    svg = chart(curves, title=f"Loss curve of {words}", x_ticks=ticks, x_label="steps t")
    return Figure(svg, words)

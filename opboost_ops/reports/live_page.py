"""A version in production as blocks of its page: what has moved, and how old others' values are."""

from collections.abc import Sequence
from datetime import UTC, datetime

from opboost_ops.learning.distribution import LEAST
from opboost_ops.quality.live import DAYS, FAR, MOVED, Live, Move, PartnerAge, Shift
from opboost_ops.reports.display.blocks import (
    Block,
    Cell,
    Fact,
    Facts,
    Figure,
    Figures,
    Fold,
    Note,
    Row,
    State,
    Table,
    number,
)
from opboost_ops.reports.display.charts import bars, colour_of

#: Columns of the picture.
_COLUMNS = 15

_WORDS: dict[Move, tuple[str, State]] = {
    "none": ("as in training", "good"),
    "moved": ("moved", "warn"),
    "far": ("moved far", "bad"),
}

_INDEX = (
    f"The population stability index is near zero where rows lie as in training. Above {MOVED:g} "
    f"and above chance a distribution has moved, above {FAR:g} far. Scores are compared with the "
    "version's held-out rows, columns with its training table."
)


def live_blocks(live: Live, owner: str, parties: Sequence[str]) -> list[Block]:
    """Recent scores of a version, beside its training.

    Args:
        live: The version in production.
        owner: The label holder.
        parties: All parties of the federation.
    """
    blocks: list[Block] = []
    if live.moved:
        blocks.append(_warning(live.moved))
    blocks.append(_facts(live))
    figures = []
    shifts = [*([live.scores] if live.scores else []), *live.columns]
    if shifts:
        colour = colour_of(owner, parties)
        rows = [(shift.name, shift.index, colour) for shift in shifts[:_COLUMNS]]
        title = "Population stability index of scores and own columns"
        figures.append(Figure(bars(rows, title=title, digits=3), "population stability index"))
    ages = [(p.party, p.mean_days, colour_of(p.party, parties)) for p in live.partners]
    dated = [(party, days, colour) for party, days, colour in ages if days is not None]
    if dated:
        title = "Mean age of other parties' values"
        figures.append(Figure(bars(dated, title=title), "mean age in days"))
    if figures:
        blocks.append(Figures("Moved since training", figures, _INDEX))
    if shifts:
        blocks.append(Fold("Moved since training: table", (_shifts(shifts),)))
    if live.partners:
        blocks.append(Fold("Age of other parties' values: table", (_partners(live.partners),)))
    return blocks


def _warning(moved: Sequence[Shift]) -> Note:
    far = any(shift.move == "far" for shift in moved)
    named = ", ".join(f"{shift.name} {shift.index:.2f}" for shift in moved[:5])
    more = f" and {len(moved) - 5} more" if len(moved) > 5 else ""
    what = "Train again, or find out what changed" if far else "Find out what changed"
    return Note(
        "warn" if far else "",
        f"Production has moved away from training: {named}{more}.",
        f"{what}: the table below has each index.",
    )


def _facts(live: Live) -> Facts:
    facts = [
        Fact("Rows scored", f"{live.rows:,}", f"in {DAYS} days, {live.served:,} one by one"),
        Fact("Last scored", f"{datetime.fromtimestamp(live.last, UTC):%Y-%m-%d %H:%M} UTC"),
    ]
    if live.refused:
        facts.append(Fact("Rows refused", f"{live.refused:,}", "of those scored one by one"))
    if live.scores:
        words, state = _WORDS[live.scores.move]
        facts.insert(1, Fact("Scores", words, f"index {live.scores.index:.3f}", state))
    if live.columns:
        moved = [column for column in live.columns if column.move != "none"]
        words = f"{len(moved)} of {len(live.columns)} moved" if moved else "as in training"
        far = any(column.move == "far" for column in moved)
        state = "bad" if far else "warn" if moved else "good"
        facts.insert(2, Fact("Own columns", words, "beside the training table", state))
    return Facts(facts)


def _shifts(shifts: Sequence[Shift]) -> Table:
    rows = []
    for shift in shifts:
        words, state = _WORDS[shift.move]
        figures = (number(shift.index), number(shift.chance))
        shares = (_share(shift.missing_then or 0.0), _share(shift.missing or 0.0))
        rows.append((Cell(words, state=state), shift.name, *figures, *shares))
    heads = ("result", "of", "index", "by chance", "missing then", "missing now")
    return Table("live", "Scores and own columns", heads, rows, "Shares of rows.")


def _partners(partners: Sequence[PartnerAge]) -> Table:
    states = list(dict.fromkeys(state for partner in partners for state in partner.states))
    rows: Sequence[Row] = [
        (
            partner.party,
            partner.rows,
            number(partner.mean_days, 1),
            *(_share(partner.states.get(state, 0.0)) for state in states),
        )
        for partner in partners
    ]
    note = f"Of rows scored one by one. Shares of fewer than {LEAST} rows are empty."
    heads = ("party", "rows", "mean days", *states)
    return Table("partners", "Other parties' values", heads, rows, note)


def _share(value: float | None) -> Cell | None:
    return None if value is None else Cell(f"{100 * value:.2f} %", value)

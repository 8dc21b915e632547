"""A federation's models as tables and plots: versions, decisions, and a version in production."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from opboost_ops.learning.distribution import MIN_PEOPLE
from opboost_ops.learning.metrics import Interval
from opboost_ops.quality.live import DAYS, FAR, MOVED, Live, Move, PartnerAge, Shift
from opboost_ops.reports.display.blocks import (
    Block,
    Cell,
    Fact,
    Facts,
    Figure,
    Figures,
    Fold,
    Links,
    Note,
    Row,
    State,
    Table,
    moment,
    number,
)
from opboost_ops.reports.display.charts import Curve, bars, chart, colour_of
from opboost_ops.reports.plots import held_out_figures
from opboost_ops.reports.versions import (
    DECISIONS,
    MAIN_MODE,
    Models,
    Version,
    by_rank,
    interval_cell,
    mode_words,
)

#: Maximum number of features in the importance table of two versions.
_MAX_FEATURES = 40

#: Returns the path of a version's page.
Address = Callable[[str], str]

#: Maximum number of columns in the plot.
_MAX_COLUMNS = 15

_MOVE_WORDS: dict[Move, tuple[str, State]] = {
    "none": ("as in training", "good"),
    "moved": ("moved", "warn"),
    "far": ("moved far", "bad"),
}

_INDEX = (
    f"The population stability index is near zero where rows lie as in training. Above {MOVED:g} "
    f"and above chance a distribution has moved, above {FAR:g} far. Scores are compared with the "
    "version's held-out rows, columns with its training table."
)


def versions_table(models: Models, names: Sequence[str], address: Address = lambda _: "") -> Table:
    """Return versions with decision, epsilon, parameters, metric and gain.

    Args:
        models: Models of the federation.
        names: Ids of the versions, newest first.
        address: Returns the path of a version's page.
    """
    main = models.version(names[0]).main if names else ""
    rows = []
    for name in names:
        version = models.version(name)
        judged, gain, last = version.judged(main), version.gains.get(main), version.decision
        use = None
        if version.champion:
            use = Cell("champion", state="good")
        elif models.champion and address(name):
            # Empty in the CSV.
            use = Cell("compare", "", href=f"{address(models.champion)}/beside/{name}")
        rows.append(
            (
                Cell(name, href=address(name)),
                use,
                moment(last.at) if last else None,
                Cell(version.verdict, title=last.why if last else ""),
                version.epsilon(),
                version.parameters(),
                interval_cell(judged) if judged else None,
                interval_cell(gain, "+") if gain else None,
            )
        )
    heads = ("version", "in use", "decided (UTC)", "decision", "epsilon", "trained with")
    return Table(
        f"versions_{models.federation}",
        "Versions",
        (*heads, f"{main or 'metric'} (95 %)", "gain over alone (95 %)"),
        rows,
        "On held-out rows, in the mode of scoring; the gain is over the label holder's columns "
        "alone. The reasons are under Decisions.",
        "No version was registered yet.",
        federation=models.federation,
    )


def decisions_table(
    models: Models, only: str | None = None, most: int | None = None, address: Address = str
) -> Table:
    """Return decisions about versions with reasons, newest first.

    Args:
        models: Models of the federation.
        only: Id of a version; all by default.
        most: Maximum number of entries; all by default.
        address: Returns the path of a version's page.
    """
    entries = [e for e in reversed(models.history) if only in (None, e.version)][:most]
    rows = [
        (
            moment(entry.at),
            Cell(entry.version, href=address(entry.version)),
            DECISIONS[entry.event],
            entry.why,
        )
        for entry in entries
    ]
    heads = ("at (UTC)", "version", "decision", "why")
    name = f"history_{models.federation}"
    return Table(name, "Decisions", heads, rows, federation=models.federation)


def over_versions(models: Models, names: Sequence[str]) -> Figures:
    """Return plots of each metric over versions.

    Args:
        models: Models of the federation.
        names: Ids of the versions, oldest first.
    """
    versions = [models.version(name) for name in names]
    modes = sorted({m for of in versions for m in of.metrics}, key=lambda m: m != MAIN_MODE)
    metrics = by_rank({k for of in versions for by in of.metrics.values() for k in by})
    figures = []
    for metric in metrics:
        curves = []
        for mode in modes:
            placed = [
                (x, of) for x, of in enumerate(versions) if metric in of.metrics.get(mode, {})
            ]
            spans = [of.intervals.get(metric) for _, of in placed]
            band = [(i.low, i.high) for i in spans if i]
            # Only in the scoring mode, and only if every version has an interval.
            whole = len(band) == len(placed) and mode == versions[-1].mode
            points = [(float(x), of.metrics[mode][metric]) for x, of in placed]
            rings = tuple(i for i, (_, of) in enumerate(placed) if of.champion and mode == modes[0])
            curves.append(Curve(mode_words(mode), points, rings=rings, band=band if whole else ()))
        svg = chart(
            curves, title=f"{metric} over versions", x_ticks=_days(versions), from_zero=False
        )
        figures.append(Figure(svg, metric))
    return Figures(
        "Metrics over versions",
        figures,
        f"The {len(names)} newest, oldest to the left, by the day of their decision (UTC); a ring "
        "marks the champion, the area is the 95 % interval. On held-out rows.",
    )


def _days(versions: Sequence[Version]) -> list[tuple[float, str]]:
    """Return tick labels at both ends and in the middle: dates, if known."""
    last = len(versions) - 1
    places = sorted({0, last // 2, last}) if last > 3 else [0, last]
    days = [of.decision.at[:10] if of.decision else of.name[:8] for of in versions]
    return [(float(at), days[at]) for at in places]


def comparison(first: Version, second: Version, start: str) -> list[Block]:
    """Return a comparison of two versions: parameters, metrics, curves and importance.

    Args:
        first: The first version.
        second: The second version.
        start: Path of the federation's models.
    """
    facts = []
    for label, of in (("First", first), ("Second", second)):
        judged = of.judged()
        hint = f"{of.main} {judged}" if judged else "no metrics"
        facts.append(Fact(label, of.name, hint, href=f"{start}/{of.name}"))
    blocks: list[Block] = [Facts(facts), _parameters(first, second)]
    if first.mode != second.mode:
        text = f"{mode_words(first.mode)} and {mode_words(second.mode)}"
        remedy = "A metric in one mode says nothing about the other."
        blocks.append(Note("warn", f"They are scored in different modes, {text}.", remedy))
    blocks.append(_both_metrics(first, second))
    named = {
        name: of.curves[of.mode]
        for name, of in (("first", first), ("second", second))
        if of.mode in of.curves
    }
    if len(named) == 2 and (figures := held_out_figures(named)):
        note = "In the mode of scoring."
        blocks.append(Figures("Held-out rows, both versions", figures, note))
    swapped = f"{start}/{second.name}/beside/{first.name}"
    links = Links((("The other way round", swapped), ("All versions", "models")))
    return [*blocks, _both_importances(first, second), links]


def _parameters(first: Version, second: Version) -> Table:
    rows = [("epsilon", first.epsilon().text, second.epsilon().text)]
    absent = {"mechanism": "not protected, or not there"}
    for key in sorted({*first.protected, *second.protected}):
        before, two = (
            str(of.protected.get(key, absent).get("mechanism")) for of in (first, second)
        )
        if before != two:
            rows.append((f"{'.'.join(key)}: protection", before, two))
    rows += [
        (
            name.replace("_", " "),
            _value(first.training.get(name)),
            _value(second.training.get(name)),
        )
        for name in dict.fromkeys([*first.training, *second.training])
    ]
    rows.append(("held-out rows", f"{first.rows:,}", f"{second.rows:,}"))
    cells = [(*row, None if row[1] == row[2] else Cell("differs", state="warn")) for row in rows]
    heads = ("what", "first", "second", "difference")
    return Table("parameters", "Parameters", heads, cells, "Protections only where they differ.")


def _value(value: Any) -> str:
    if value is None:
        return "the booster's default"
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {v}" for k, v in value.items()) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _both_metrics(first: Version, second: Version) -> Table:
    names = by_rank({k for of in (first, second) for k in of.metrics.get(of.mode, {})})
    rows = [
        (name.replace("_", " "), *_both(first.judged(name), second.judged(name))) for name in names
    ]
    for name in ("auc", "r2"):
        if name in first.gains or name in second.gains:
            both = _both(first.gains.get(name), second.gains.get(name), "+")
            rows.append((f"gain in {name} over the label holder alone", *both))
    return Table(
        "metrics",
        "Metrics with 95 % intervals",
        ("metric", "first", "second", "second minus first"),
        rows,
        "Each on its own held-out rows, in the mode of scoring. Overlapping intervals do not mean "
        "that the versions are equal: the paired interval of the gate is under Decisions.",
        "Neither has metrics.",
    )


def _both(left: Interval | None, right: Interval | None, sign: str = "") -> Row:
    first, second = (interval_cell(of, sign) if of else None for of in (left, right))
    gap = interval_cell(Interval(right.value - left.value), "+") if left and right else None
    return first, second, gap


def _both_importances(first: Version, second: Version) -> Table:
    keys = {*first.shares, *second.shares}
    gaps = {key: second.shares.get(key, 0.0) - first.shares.get(key, 0.0) for key in keys}
    most = max(map(abs, gaps.values()), default=0.0) or 1.0
    rows: Sequence[Row] = [
        (
            *key,
            *(number(100 * of.shares.get(key, 0.0), 1) for of in (first, second)),
            Cell(f"{100 * gaps[key]:+.1f}", 100 * gaps[key], share=abs(gaps[key]) / most),
        )
        for key in sorted(keys, key=lambda key: (-abs(gaps[key]), key))[:_MAX_FEATURES]
    ]
    what = "splits" if first.by_splits or second.by_splits else "the mean absolute contribution"
    heads = ("party", "feature", "first, %", "second, %", "second minus first")
    note = f"Shares of {what}, the greatest difference first."
    return Table("importance", "Importance, by difference", heads, rows, note)


def live_blocks(live: Live, owner: str, parties: Sequence[str]) -> list[Block]:
    """Return a version's recent scores compared with its training.

    Args:
        live: The version in production.
        owner: Name of the label holder.
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
        rows = [(shift.name, shift.index, colour) for shift in shifts[:_MAX_COLUMNS]]
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
        words, state = _MOVE_WORDS[live.scores.move]
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
        words, state = _MOVE_WORDS[shift.move]
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
    note = f"Of rows scored one by one. Shares of fewer than {MIN_PEOPLE} rows are empty."
    heads = ("party", "rows", "mean days", *states)
    return Table("partners", "Other parties' values", heads, rows, note)


def _share(value: float | None) -> Cell | None:
    return None if value is None else Cell(f"{100 * value:.2f} %", value)

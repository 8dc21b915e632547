"""Two versions side by side: what they cost, what they were trained with, how good they are."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from opboost_ops.config.loading import site_of
from opboost_ops.errors import ContractError
from opboost_ops.models.registry import Registry
from opboost_ops.pages.blocks import (
    Block,
    Cell,
    Fact,
    Facts,
    Figure,
    Figures,
    Links,
    Note,
    Table,
    number,
)
from opboost_ops.pages.curve_figures import EXACT
from opboost_ops.pages.models import federations
from opboost_ops.pages.pictures import Curve, chart
from opboost_ops.pages.version_facts import Interval, VersionFacts, mode_words, version_facts

#: Features in the table of importance.
_FEATURES = 40

_TICKS = [(0.0, "0"), (0.25, "0.25"), (0.5, "0.5"), (0.75, "0.75"), (1.0, "1")]
_DIAGONAL = Curve("by chance", ((0.0, 0.0), (1.0, 1.0)), dashed=True)
_PICTURES = (
    ("roc", "ROC", "false positive rate, against true positive rate"),
    ("pr", "Precision", "recall, against precision"),
    ("gains", "Gains", "share of rows, against share of positives"),
    ("calibration", "Calibration", "mean score, against what was so"),
)


def comparison(party: str, federation: str, one: str, other: str) -> list[Block]:
    """Two versions of a federation's model.

    Args:
        party: The label holder.
        federation: Whose model.
        one: The first version.
        other: The second one.

    Raises:
        ContractError: One of them is none.
    """
    site, _ = site_of(party)
    if federation not in federations(site.models):
        raise ContractError(f"{party} keeps no models of {federation}.")
    registry = Registry(site.models, federation)
    known = set(registry.versions())
    for name in (one, other):
        if name not in known:
            raise ContractError(f"There is no model version {name}.")
    first, second = (version_facts(registry, name) for name in (one, other))
    start = f"models/{party}/{federation}"
    blocks: list[Block] = [
        Facts(
            tuple(
                _fact(label, name, facts, f"{start}/{name}")
                for label, name, facts in (("First", one, first), ("Second", other, second))
            )
        ),
        _parameters(first, second),
    ]
    if first.mode != second.mode:
        told = f"{mode_words(first.mode)} and {mode_words(second.mode)}"
        remedy = "What is measured in one mode says nothing about the other."
        blocks.append(Note("warn", f"They are scored in different modes, {told}.", remedy))
    blocks += [_metrics(first, second), *_curves(first, second), _importance(first, second)]
    swapped = f"{start}/{other}/beside/{one}"
    return [*blocks, Links((("The other way round", swapped), ("All versions", "models")))]


def _fact(label: str, name: str, facts: VersionFacts, href: str) -> Fact:
    judged = facts.judged()
    hint = f"{facts.main} {judged.cell().text}" if judged else "no metrics"
    return Fact(label, name, hint, href=href)


def _parameters(first: VersionFacts, second: VersionFacts) -> Table:
    rows = [("epsilon", Cell(first.epsilon().text), Cell(second.epsilon().text))]
    for key in sorted({*first.mechanisms, *second.mechanisms}):
        found = [of.mechanisms.get(key, "not protected, or not there") for of in (first, second)]
        if found[0] != found[1]:
            rows.append((f"{'.'.join(key)}: protection", Cell(found[0]), Cell(found[1])))
    names = [*first.training, *(name for name in second.training if name not in first.training)]
    rows += [
        (
            name.replace("_", " "),
            _value(first.training.get(name)),
            _value(second.training.get(name)),
        )
        for name in names
    ]
    rows.append(("held-out rows", Cell(f"{first.rows:,}"), Cell(f"{second.rows:,}")))
    return Table(
        "parameters",
        "Parameters",
        ("what", "first", "second", "difference"),
        tuple(
            (Cell(what), one, two, Cell("", "") if one.text == two.text else _differs())
            for what, one, two in rows
        ),
        "Epsilon first. Of the protections those that differ.",
    )


def _differs() -> Cell:
    return Cell("differs", state="warn")


def _value(value: Any) -> Cell:
    if value is None:
        return Cell("as the booster has it", "")
    if isinstance(value, Mapping):
        return Cell(", ".join(f"{k} {v}" for k, v in value.items()) or "none")
    if isinstance(value, bool):
        return Cell("yes" if value else "no")
    return Cell(f"{value:g}" if isinstance(value, float) else str(value))


def _metrics(first: VersionFacts, second: VersionFacts) -> Table:
    names = list(first.metrics.get(first.mode, {}))
    names += [k for k in first.intervals if k not in names]
    names += [k for k in second.intervals if k not in names]
    rows = []
    for name in names:
        one, two = first.judged(name), second.judged(name)
        rows.append((Cell(name.replace("_", " ")), *_both(one, two)))
    for name in ("auc", "r2"):
        if name in first.gains or name in second.gains:
            both = _both(first.gains.get(name), second.gains.get(name), "+")
            rows.append((Cell(f"gain in {name} over the label holder alone"), *both))
    return Table(
        "metrics",
        "Metrics with 95 % intervals",
        ("metric", "first", "second", "second less first"),
        tuple(rows),
        "Each on its own held-out rows, in the mode of scoring. Intervals that overlap do not say "
        "that the versions are equal: the paired interval of the gate does, in the decisions.",
        "Neither has metrics.",
    )


def _both(one: Interval | None, two: Interval | None, sign: str = "") -> tuple[Cell, Cell, Cell]:
    gap = Cell("", "") if one is None or two is None else Interval(two.value - one.value).cell("+")
    first, second = (Cell("", "") if found is None else found.cell(sign) for found in (one, two))
    return first, second, gap


def _curves(first: VersionFacts, second: VersionFacts) -> list[Block]:
    figures = []
    for key, title, axes in _PICTURES:
        lines = [
            Curve(name, _points(of.curves[key]))
            for name, of in (("first", first), ("second", second))
            if of.curves.get(key)
        ]
        if len(lines) == 2:
            ideal = replace(_DIAGONAL, name=EXACT) if key == "calibration" else _DIAGONAL
            reference = [] if key == "pr" else [ideal]
            words = f"{title}: {axes}"
            svg = chart([*lines, *reference], title=words, x_ticks=_TICKS, x_label=axes)
            figures.append(Figure(svg, title))
    if not figures:
        return []
    return [Figures("Held-out rows, both versions", tuple(figures), "In the mode of scoring.")]


def _points(found: Sequence[Any]) -> list[tuple[float, float]]:
    return [(p["score"], p["share"]) if isinstance(p, Mapping) else (p[0], p[1]) for p in found]


def _importance(first: VersionFacts, second: VersionFacts) -> Table:
    keys = {*first.shares, *second.shares}
    gaps = {key: second.shares.get(key, 0.0) - first.shares.get(key, 0.0) for key in keys}
    ordered = sorted(keys, key=lambda key: (-abs(gaps[key]), key))
    most = max(map(abs, gaps.values()), default=0.0) or 1.0
    rows = tuple(
        (
            Cell(key[0]),
            Cell(key[1]),
            *(number(100 * of.shares.get(key, 0.0), 1) for of in (first, second)),
            Cell(f"{100 * gaps[key]:+.1f}", 100 * gaps[key], share=abs(gaps[key]) / most),
        )
        for key in ordered[:_FEATURES]
    )
    what = "splits" if first.by_splits or second.by_splits else "the mean absolute contribution"
    return Table(
        "importance",
        "Importance, by difference",
        ("party", "feature", "first, %", "second, %", "second less first"),
        rows,
        f"Shares of {what}, the greatest difference first.",
    )

"""Horizontal boosting from noisy sums: what is decided follows from sums with noise, and no more.

Beside `federboost`, of which it keeps the rounds, the trees and the file. What differs, because
every sum costs: buckets come from one histogram of each column over fixed cells and not from a
search; a level's histograms hold gradients and hessians, no row counts; and each tree looks at a
few columns, in turn, whatever the data (as in DP-EBM, Nori et al., 2021, and Maddock et al., 2022).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import ceil

import numpy as np

from opboost_ops.boosting import histogram
from opboost_ops.boosting.federboost import Ensemble, Facts, Level, Settings
from opboost_ops.boosting.histogram import Derivatives, Rows, Tree
from opboost_ops.boosting.noisy_splits import (
    GRADIENT_UNITS,
    HESSIAN_UNITS,
    Scale,
    decide_noisy,
)
from opboost_ops.boosting.objectives import ONE
from opboost_ops.boosting.rounds import Phase, Round, Rounds
from opboost_ops.boosting.sum_noise import Release, SumNoise, calibrated
from opboost_ops.config.schema import Record
from opboost_ops.domain import Domain
from opboost_ops.errors import ContractError

#: Steps of a row where rows are counted by cell: whole rows would round small noise up by much.
COUNT_UNITS = 16

#: Cells of a column in which its rows are counted to find bucket ends.
CELLS = 256

#: Shares of the divergence: of row counts, of bucket ends; the rest is the trees'.
FACTS, LOOKUP = 0.02, 0.08


class Ends(Record):
    """Decision of the one round of bucket ends."""

    edges: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Private:
    """What a session may cost, and for how many parties' noise that holds.

    Attributes:
        epsilon: For a row that is added or removed.
        delta: Below 1 / rows.
        honest: h = remaining - colluding.
        columns: How many columns a tree looks at.
    """

    epsilon: float
    delta: float
    honest: int
    columns: int


@lru_cache(maxsize=16)
def noise_of(settings: Settings, private: Private) -> SumNoise:
    """The noise of a session; it follows from declarations alone.

    Args:
        settings: What is learnt.
        private: What it may cost.

    Raises:
        ConfigError: The noise would be out of range.
    """
    columns = min(private.columns, len(settings.domains))
    counted = len(_counted(settings))
    square = GRADIENT_UNITS**2 + HESSIAN_UNITS**2
    number = settings.objective.task == "regression"
    count, units = COUNT_UNITS, GRADIENT_UNITS
    # A replaced row leaves the row count as it is, and changes its class or its label; it moves to
    # another cell of each column, and stays in its bin with the opposite gradient or leaves it.
    bins = (2 * (units + HESSIAN_UNITS), max(4 * units**2 + HESSIAN_UNITS**2, 2 * square))
    releases = [
        Release(
            "facts",
            1,
            units * (2 if number else 1),
            units**2 * (2 if number else 1),
            FACTS,
            (units, units**2) if number else (2 * units, 2 * units**2),
        ),
        Release(
            "trees",
            settings.trees * settings.growth.depth,
            columns * (units + HESSIAN_UNITS),
            columns * square,
            1 - FACTS - (LOOKUP if counted else 0),
            (columns * bins[0], columns * bins[1]),
        ),
    ]
    if counted:
        moved = (2 * count * counted, 2 * count**2 * counted)
        lookup = Release("lookup", 1, count * counted, count**2 * counted, LOOKUP, moved)
        releases.insert(1, lookup)
    return calibrated(releases, private.honest, private.epsilon, private.delta)


def rounds_of(settings: Settings) -> list[Round]:
    """All rounds that there may be, in their order; it follows from declarations alone.

    Args:
        settings: What is learnt.
    """
    levels = range(settings.growth.depth)
    trees = [Round("trees", tree, level) for tree in range(settings.trees) for level in levels]
    return [Round("facts"), *([Round("lookup")] if _counted(settings) else []), *trees]


def learn_private(
    columns: Sequence[np.ndarray],
    label: np.ndarray,
    settings: Settings,
    private: Private,
    rounds: Rounds,
    progress: Callable[[int], None] = lambda _: None,
) -> Ensemble:
    """Train with all parties by sums to which `rounds` adds each party's noise.

    Args:
        columns: This party's rows: domain integers, one array of shape (n,) a column.
        label: Its labels: class indices or numbers, shape (n,).
        settings: What is learnt, and how; two classes or a number.
        private: What it may cost.
        rounds: The way to the others. Its vectors must get noise of `noise_of`.
        progress: Called with the number of trees finished, after each boosting round.

    Raises:
        ContractError: Labels are out of their bounds, a decision does not fit its round, or delta
            is not below 1 / rows.
    """
    objective = settings.objective
    truth = objective.scaled(label)
    noise = noise_of(settings, private)

    def open_run(sums: np.ndarray) -> Facts:
        return _facts(sums, objective.task == "regression")

    facts = rounds.step(Round("facts"), 2, lambda: _told(truth, settings), open_run, Facts)
    if private.delta * facts.rows >= 1:
        raise ContractError(
            f"delta is {private.delta:g}, which is not below 1 / rows: it would allow a row to be "
            "told as it is.",
            "Declare a smaller training.private.delta, and trigger a new run.",
        )
    parties = rounds.parties

    def bound(phase: Phase, units: int) -> int:
        """What no noisy sum passes, but by a chance below e^-100; it follows from declarations."""
        rows = 1 / private.delta + 32 * noise.deviation("facts", parties) / GRADIENT_UNITS
        return ceil(units * rows + 16 * noise.deviation(phase, parties))

    counted = bound("lookup", COUNT_UNITS) if "lookup" in noise.means else 0
    edges = _edges(columns, settings, rounds, counted)
    most = (bound("trees", GRADIENT_UNITS), bound("trees", HESSIAN_UNITS))
    everything = settings.binned(columns, edges)
    ensemble = Ensemble(facts, edges)
    scores = np.repeat(np.array(facts.initial)[:, None], len(label), axis=1)
    unit = _greatest_hessian(settings) / HESSIAN_UNITS
    for number in range(settings.trees):
        spread = noise.deviation("trees", rounds.parties)
        scale = Scale(unit, (spread / GRADIENT_UNITS, spread * unit))
        used = looked_at(number, len(columns), private.columns)
        rows = everything.only(used)
        tree, nodes = _grow(rows, scores, truth, settings, scale, facts, rounds, number, most)
        renamed = {
            node: (split.model_copy(update={"feature": used[split.feature]}), left, right)
            for node, (split, left, right) in tree.splits.items()
        }
        tree.splits.update(renamed)
        scores[0] += np.array([leaf.value for leaf in tree.leaves])[nodes]
        ensemble.trees.append([tree])
        progress(number + 1)
    return ensemble


def looked_at(number: int, count: int, most: int) -> list[int]:
    """Which columns a tree looks at: so many, in turn, whatever the data.

    Args:
        number: Of the tree.
        count: How many columns there are.
        most: How many it looks at.
    """
    return sorted({(number * most + i) % count for i in range(min(most, count))})


def _counted(settings: Settings) -> list[int]:
    """Columns whose buckets are not one for each value of the domain."""
    return [i for i, domain in enumerate(settings.domains) if domain.size > settings.buckets]


def _told(truth: np.ndarray, settings: Settings) -> np.ndarray:
    if settings.objective.task == "regression":
        units = np.rint(np.clip(truth, 0, 1) * GRADIENT_UNITS).astype(np.int64)
        return np.array([len(truth) * GRADIENT_UNITS, units.sum()], dtype=np.int64)
    counts = np.bincount(truth.astype(np.int64), minlength=2)
    return np.asarray(counts * GRADIENT_UNITS, dtype=np.int64)


def _facts(sums: np.ndarray, number: bool) -> Facts:
    first, second = (max(float(s) / GRADIENT_UNITS, 1.0) for s in sums)
    if number:
        return Facts(rows=round(first), initial=(min(second / first, 1.0),))
    return Facts(rows=round(first + second), initial=(float(np.log(second / first)),))


def _edges(
    columns: Sequence[np.ndarray], settings: Settings, rounds: Rounds, most: int
) -> tuple[tuple[int, ...], ...]:
    counted = _counted(settings)
    fixed = {
        i: tuple(range(domain.lower, domain.upper))
        for i, domain in enumerate(settings.domains)
        if i not in counted
    }
    if not counted:
        return tuple(fixed[i] for i in range(len(columns)))
    ends = {i: cell_ends(settings.domains[i]) for i in counted}
    sizes = [len(ends[i]) for i in counted]

    def counts() -> np.ndarray:
        found = (
            # A missing value lies above all cells, and is counted in none.
            np.bincount(np.searchsorted(ends[i], columns[i]), minlength=len(ends[i]))[
                : len(ends[i])
            ]
            for i in counted
        )
        return np.concatenate(list(found)).astype(np.int64) * COUNT_UNITS

    def decide(sums: np.ndarray) -> Ends:
        parts = np.split(sums, np.cumsum(sizes)[:-1])
        found = {
            i: bucket_ends(part, ends[i], settings.buckets)
            for i, part in zip(counted, parts, strict=True)
        }
        return Ends(edges=tuple(found.get(i) or fixed[i] for i in range(len(columns))))

    decided = rounds.step(Round("lookup"), sum(sizes), counts, decide, Ends, (most,)).edges
    if len(decided) != len(columns) or not all(
        chosen
        and domain.lower <= chosen[0]
        and chosen[-1] < domain.upper
        and all(a < b for a, b in pairwise(chosen))
        for domain, chosen in zip(settings.domains, decided, strict=True)
    ):
        raise ContractError(
            f"{Round('lookup')}: the decision does not fit the round.",
            "Bring all parties to the same release of this software, and trigger a new run.",
        )
    return decided


def cell_ends(domain: Domain) -> np.ndarray:
    """The greatest integer of each cell of a domain, rising, int64.

    Args:
        domain: A column's.
    """
    cells = min(domain.size, CELLS)
    upto = -(-np.arange(1, cells + 1, dtype=np.int64) * domain.size // cells)
    return domain.lower - 1 + upto


def bucket_ends(counts: np.ndarray, ends: np.ndarray, buckets: int) -> tuple[int, ...]:
    """Ends of buckets of about equal noisy counts, all but the last one's.

    Args:
        counts: Noisy counts by cell, shape (cells,).
        ends: Of the cells.
        buckets: How many at most.
    """
    below = np.maximum.accumulate(np.maximum(np.cumsum(counts), 0)).astype(np.float64)
    wanted = np.arange(1, buckets) * max(below[-1], 1.0) / buckets
    at = np.minimum(np.searchsorted(below, wanted), len(ends) - 2)
    return tuple(int(ends[i]) for i in sorted(set(at.tolist())))


def _greatest_hessian(settings: Settings) -> float:
    return 1.0 if settings.objective.task == "regression" else 0.25


def _integers(
    scores: np.ndarray, truth: np.ndarray, settings: Settings
) -> tuple[np.ndarray, np.ndarray]:
    """A row's gradient and hessian in whole units, clipped: so much it can change, and no more."""
    gradient, hessian = (each[0] / ONE for each in settings.objective.derivatives(scores, truth))
    units = HESSIAN_UNITS / _greatest_hessian(settings)
    return (
        np.rint(np.clip(gradient, -1, 1) * GRADIENT_UNITS).astype(np.int64),
        np.clip(np.rint(hessian * units), 0, HESSIAN_UNITS).astype(np.int64),
    )


def _grow(
    rows: Rows,
    scores: np.ndarray,
    truth: np.ndarray,
    settings: Settings,
    scale: Scale,
    facts: Facts,
    rounds: Rounds,
    number: int,
    most: tuple[int, int],
) -> tuple[Tree, np.ndarray]:
    growth = settings.growth
    derivatives: list[Derivatives] = []
    tree: Tree | None = None
    nodes = np.zeros(rows.count, dtype=np.int64)
    opened = [0]
    mean = _mean_hessian(facts, settings)
    for level in range(growth.depth):
        if not opened:
            break

        def vector(opened: list[int] = opened, nodes: np.ndarray = nodes) -> np.ndarray:
            if not derivatives:
                derivatives.append(Derivatives.of(*_integers(scores, truth, settings)))
            table = histogram.histograms(rows, derivatives[0], nodes, opened)
            return table.reshape(-1, histogram.SUMS)[:, :2].ravel()

        def decide(sums: np.ndarray, level: int = level) -> Level:
            found, splits = decide_noisy(sums, rows.widths, rows.keeps, growth, scale, mean)
            return Level(splits=(tuple(splits),), roots=(found[0],) if level == 0 else ())

        name = Round("trees", number, level)
        size = len(opened) * sum(rows.widths) * 2
        decision = rounds.step(name, size, vector, decide, Level, most)
        if not _fits(decision, len(opened), rows.widths, level == 0):
            raise ContractError(
                f"{name}: the decision does not fit the round.",
                "Bring all parties to the same release of this software, and trigger a new run.",
            )
        tree = tree or Tree.planted(decision.roots[0])
        before = opened
        tree.grow(decision.splits[0], growth, last=level + 1 == growth.depth)
        nodes = histogram.apply(rows, nodes, tree, before)
        opened = tree.open
    assert tree is not None
    return tree, nodes


def _mean_hessian(facts: Facts, settings: Settings) -> float:
    if settings.objective.task == "regression":
        return 1.0
    chance = 1 / (1 + np.exp(-facts.initial[0]))
    return float(max(chance * (1 - chance), 1e-6))


def _fits(decision: Level, opened: int, widths: Sequence[int], root: bool) -> bool:
    return (
        [len(splits) for splits in decision.splits] == [opened]
        and len(decision.roots) == int(root)
        and all(
            split is None
            or (0 <= split.feature < len(widths) and 0 <= split.bin < widths[split.feature] - 1)
            for split in decision.splits[0]
        )
    )

"""Horizontal boosting from noisy sums, to which every party contributes noise.

As in `private.noisy_leaves`, splits are drawn without reading any row, so only leaf sums have a
privacy loss. Here each party adds its rows and its share of the noise, and `Rounds` adds up the
vectors. A round takes time but has no privacy loss of its own; several trees are grown per round,
all from the same scores. Splits are drawn from bucket ends, which follow from a noisy histogram of
each column over fixed cells. The model has the same format as that of `federboost`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import Annotated

import numpy as np
from pydantic import Field

from opboost_ops.config.schema import Record
from opboost_ops.domain import Domain
from opboost_ops.errors import ContractError
from opboost_ops.exchange.rounds.protocol import Phase, Round, Rounds
from opboost_ops.learning.federboost.federboost import Ensemble, Facts, Settings
from opboost_ops.learning.federboost.histogram import Count, Leaf, Split, Tree, Weight
from opboost_ops.learning.federboost.sum_noise import SumNoise
from opboost_ops.learning.metrics import Task
from opboost_ops.learning.private import leaf_sums, noise, sensitivity
from opboost_ops.learning.private.leaf_sums import COUNT_UNITS, MAX_DEPTH, Sums
from opboost_ops.learning.private.sensitivity import LEAF_UNITS
from opboost_ops.learning.private.tree import Candidates

#: Trees per round, all grown from the same scores.
TREES_PER_ROUND = 10

#: Default number of buckets per column.
BUCKETS = 32

#: Cells of a column's histogram, from which bucket ends are found.
CELLS = 256

#: Default number of trees, depth and learning rate.
TREES, DEPTH, RATE = 200, MAX_DEPTH, 0.1


class Start(Record):
    """The first decision.

    Attributes:
        rows: Noisy number of training rows of all parties.
        initial: Noisy initial score, in the learner's unit.
        seed: 32 public bytes in hex, from which all parties draw the same splits.
    """

    rows: Count
    initial: Weight
    seed: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Ends(Record):
    """The decision of the round that finds bucket ends."""

    edges: tuple[tuple[int, ...], ...]


class Leaves(Record):
    """The decision of a round of trees: leaf values of each tree from the left, in leaf units."""

    values: tuple[tuple[Annotated[int, Field(ge=-(2**40), le=2**40)], ...], ...]


@dataclass(frozen=True)
class Private:
    """The privacy budget of a session.

    Attributes:
        epsilon: Epsilon for a row that is added or removed.
        delta: Delta, below 1 / rows.
        honest: Number of parties whose noise counts: h = remaining - colluding.
    """

    epsilon: float
    delta: float
    honest: int


def sums_of(settings: Settings, private: Private) -> Sums:
    """Return the units and the noise of a session's sums, which depend on declarations only.

    Args:
        settings: Training settings.
        private: Privacy budget.

    Raises:
        ConfigError: The noise would be out of range.
    """
    return leaf_sums.sums_of(
        _task(settings),
        settings.trees,
        private.epsilon,
        private.delta,
        private.honest,
        len(counted_columns(settings)),
    )


def noise_of(settings: Settings, private: Private) -> SumNoise:
    """Return the noise of a session; see `sums_of`."""
    return sums_of(settings, private).noise


def learn_private(
    columns: Sequence[np.ndarray],
    label: np.ndarray,
    settings: Settings,
    private: Private,
    rounds: Rounds,
    progress: Callable[[int], None] = lambda _: None,
) -> Ensemble:
    """Train together with all parties on noisy sums.

    Args:
        columns: This party's rows: domain integers, one array of shape (n,) per column.
        label: This party's labels: class indices or numbers, shape (n,).
        settings: Training settings; the task is binary or regression.
        private: Privacy budget.
        rounds: Adds up the vectors of all parties, with each party's noise from `noise_of`.
        progress: Called with the number of finished trees, after each round of trees.

    Raises:
        ContractError: A decision does not fit its round, or delta is not below 1 / rows.
    """
    task, sums = _task(settings), sums_of(settings, private)
    # Clip labels outside their bounds: an error would depend on a row.
    bounds = settings.objective.bounds
    target = label if bounds is None else sensitivity.scale_labels(label, bounds)
    parties = rounds.parties

    def open_run(facts: np.ndarray) -> Start:
        rows, initial = leaf_sums.initial_of(facts, task, sums.units)
        return Start(rows=round(rows), initial=initial, seed=noise.fresh_key().hex())

    start = rounds.step(
        Round("facts"), 2, lambda: leaf_sums.facts_of(target, sums), open_run, Start
    )
    if private.delta * start.rows >= 1:
        raise ContractError(
            f"delta is {private.delta:g}, which is not below 1 / rows: it would allow a row to "
            "be published unchanged.",
            "Declare a smaller training.private.delta, and trigger a new run.",
        )

    def bound(phase: Phase, units: int) -> int:
        """Return a bound on noisy sums from declarations; its failure has a chance below e^-100."""
        rows = 1 / private.delta + 32 * sums.noise.deviation("facts", parties) / sums.units
        return ceil(units * rows + 16 * sums.noise.deviation(phase, parties))

    counted = bound("lookup", COUNT_UNITS) if "lookup" in sums.noise.means else 0
    edges = find_noisy_edges(columns, settings, rounds, counted)
    binned = settings.binned(columns, edges)
    candidates = candidates_of(binned.widths, binned.keeps)
    codes = np.asfortranarray(binned.bins.T.astype(np.uint16))
    depth = leaf_sums.depth_of(start.rows, sums, settings.growth.depth)
    most = (bound("trees", sums.units), bound("trees", sums.hessian_units))
    step = settings.growth.learning_rate / LEAF_UNITS
    ensemble = Ensemble(_facts(start, task), edges)
    scores = np.full(len(label), start.initial)
    for first in range(0, settings.trees, TREES_PER_ROUND):
        numbers = range(first, min(first + TREES_PER_ROUND, settings.trees))
        splits = [draw_splits(start.seed, number, depth, candidates) for number in numbers]
        places = [leaf_sums.leaf_of(each, codes, candidates) for each in splits]
        name = Round("trees", first)
        values = _grow(name, places, 2**depth, scores, target, sums, rounds, most)
        for each, place, leaves in zip(splits, places, values, strict=True):
            raw = np.array(leaves) * step
            scores += raw[place]
            # Convert to the unit of `Objective`: shares of the label's range.
            scale = 0.5 if task == "regression" else 1.0
            ensemble.trees.append([_tree(each, raw * scale, candidates)])
        progress(numbers[-1] + 1)
    return ensemble


def draw_splits(seed: str, number: int, depth: int, candidates: Candidates) -> list[int]:
    """Draw the splits of a tree: a uniform column, then a uniform candidate of the column.

    Args:
        seed: `Start.seed`. The party that chose it gains nothing, since leaf sums have the same
            privacy loss for any tree.
        number: Number of the tree.
        depth: Depth of its leaves.
        candidates: The candidate splits.
    """
    inner = 2**depth - 1
    words = noise.random_words(bytes.fromhex(seed), number, 2 * inner)
    count = np.bincount(candidates.feature)
    begin = np.concatenate([[0], np.cumsum(count)[:-1]])
    feature = (words[:inner] % np.uint64(len(count))).astype(np.int64)
    within = words[inner:] % count[feature].astype(np.uint64)
    return [int(each) for each in begin[feature] + within.astype(np.int64)]


def candidates_of(widths: Sequence[int], keeps: Sequence[bool]) -> Candidates:
    """Return the candidate splits: each bucket end, for both directions of missing values.

    Args:
        widths: Number of bins per column.
        keeps: Per column, True if its last bin contains missing values.
    """
    splits = []
    for i, (width, keep) in enumerate(zip(widths, keeps, strict=True)):
        last = width - 1 - keep
        splits += [(i, 0, cut) for cut in range(last)]
        if keep:
            # First all present values on one side; then, for each cut, the present values above it.
            splits += [(i, 0, last), *((i, cut + 1, last) for cut in range(last))]
    feature, low, high = np.array(splits, dtype=np.int64).T
    starts = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
    names = tuple(str(i) for i in range(len(widths)))
    empty = (np.empty(0),) * len(names)
    return Candidates(names, empty, (0,) * len(names), feature, low, high, starts)


def counted_columns(settings: Settings) -> list[int]:
    """Return the columns with more domain values than buckets, whose bucket ends need counts."""
    return [i for i, domain in enumerate(settings.domains) if domain.size > settings.buckets]


def find_noisy_edges(
    columns: Sequence[np.ndarray], settings: Settings, rounds: Rounds, most: int
) -> tuple[tuple[int, ...], ...]:
    """Return the inner bucket ends of each column, by a round of noisy counts if any needs one.

    Args:
        columns: This party's rows: domain integers, one array of shape (n,) per column.
        settings: Training settings.
        rounds: Adds up the vectors of all parties.
        most: Bound on noisy counts.

    Raises:
        ContractError: The decision does not fit its round.
    """
    counted = counted_columns(settings)
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
        per_column = (
            # Missing values lie above all cells and are not counted.
            np.bincount(np.searchsorted(ends[i], columns[i]), minlength=len(ends[i]))[
                : len(ends[i])
            ]
            for i in counted
        )
        return np.concatenate(list(per_column)).astype(np.int64) * COUNT_UNITS

    def decide(sums: np.ndarray) -> Ends:
        parts = np.split(sums, np.cumsum(sizes)[:-1])
        edges = {
            i: bucket_ends(part, ends[i], settings.buckets)
            for i, part in zip(counted, parts, strict=True)
        }
        return Ends(edges=tuple(edges.get(i) or fixed[i] for i in range(len(columns))))

    decided = rounds.step(Round("lookup"), sum(sizes), counts, decide, Ends, (most,)).edges
    if len(decided) != len(columns) or not all(
        edges
        and domain.lower <= edges[0]
        and edges[-1] < domain.upper
        and all(a < b for a, b in pairwise(edges))
        for domain, edges in zip(settings.domains, decided, strict=True)
    ):
        raise Round("lookup").unfit()
    return decided


def cell_ends(domain: Domain) -> np.ndarray:
    """Return the greatest integer of each cell of a domain, ascending, int64."""
    cells = min(domain.size, CELLS)
    upto = -(-np.arange(1, cells + 1, dtype=np.int64) * domain.size // cells)
    return domain.lower - 1 + upto


def bucket_ends(counts: np.ndarray, ends: np.ndarray, buckets: int) -> tuple[int, ...]:
    """Return the ends of buckets with about equal noisy counts, except the last end.

    Args:
        counts: Noisy counts by cell, shape (cells,).
        ends: Ends of the cells.
        buckets: Greatest number of buckets.
    """
    below = np.maximum.accumulate(np.maximum(np.cumsum(counts), 0)).astype(np.float64)
    wanted = np.arange(1, buckets) * max(below[-1], 1.0) / buckets
    at = np.minimum(np.searchsorted(below, wanted), len(ends) - 2)
    return tuple(int(ends[i]) for i in sorted(set(at.tolist())))


def _grow(
    name: Round,
    places: Sequence[np.ndarray],
    leaves: int,
    scores: np.ndarray,
    target: np.ndarray,
    sums: Sums,
    rounds: Rounds,
    most: tuple[int, int],
) -> tuple[tuple[int, ...], ...]:
    """Return the leaf values of a round's trees."""

    def vector() -> np.ndarray:
        parts = (leaf_sums.leaf_sums(scores, target, place, leaves, sums) for place in places)
        # Interleave gradients and hessians by leaf, as their bounds are.
        return np.concatenate([each.reshape(2, leaves).T.ravel() for each in parts])

    def decide(total: np.ndarray) -> Leaves:
        spread = sums.noise.deviation("trees", rounds.parties)
        parts = total.reshape(len(places), leaves, 2)
        return Leaves(
            values=tuple(leaf_sums.leaf_values(part.T.ravel(), sums, spread) for part in parts)
        )

    values = rounds.step(name, 2 * leaves * len(places), vector, decide, Leaves, most).values
    if [len(each) for each in values] != [leaves] * len(places):
        raise name.unfit()
    return values


def _tree(splits: Sequence[int], values: np.ndarray, candidates: Candidates) -> Tree:
    """Return a complete tree in the form of `federboost`, with values above a cut on the right.

    Only leaf values depend on rows; hessians and row counts are constants.
    """
    leaves = len(values)

    def leaf(node: int) -> Leaf:
        below = leaves >> ((node + 1).bit_length() - 1)
        value = float(values[node + 1 - leaves]) if below == 1 else 0.0
        return Leaf(value=value, hessian=float(below), rows=below)

    tree = Tree([leaf(node) for node in range(2 * leaves - 1)])
    for node, split in enumerate(splits):
        feature, low = int(candidates.feature[split]), int(candidates.low[split])
        left, right = 2 * node + 1, 2 * node + 2
        if low:
            # The candidate's left side is above the cut, so exchange the sides.
            left, right = right, left
        cut = low - 1 if low else int(candidates.high[split])
        tree.splits[node] = (
            Split(feature=feature, bin=cut, gain=0.0, left=tree.leaves[left],
                  right=tree.leaves[right], missing="left" if low else "right"),
            left,
            right,
        )  # fmt: skip
    return tree


def _facts(start: Start, task: Task) -> Facts:
    initial = (start.initial + 1) / 2 if task == "regression" else start.initial
    return Facts(rows=start.rows, initial=(initial,))


def _task(settings: Settings) -> Task:
    return settings.objective.task

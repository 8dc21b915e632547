"""What horizontal protocols and shared models disclose: trees with or without sums."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.papers import horizontal
from benchmarks.papers.arena.attacks import beyond, entropy, rows_read
from benchmarks.papers.arena.reconstruction import EXACT, Leaf, matched, reconstruct, rows_of
from benchmarks.papers.arena.vertical import boosted
from benchmarks.papers.horizontal import DOMAIN, OBJECTIVE
from benchmarks.papers.horizontal_private import NOISY, NoisyAlone
from benchmarks.papers.two_parties import TwoParties
from opboost_ops.config.training import DPBoostTraining
from opboost_ops.exchange.rounds.protocol import Alone, Round
from opboost_ops.extras.datasets.tables import FOLDER
from opboost_ops.learning.boosters import trainer
from opboost_ops.learning.boosters.backend import Frame
from opboost_ops.learning.federboost import federboost, private_federboost
from opboost_ops.learning.federboost.federboost import Ensemble, Settings
from opboost_ops.learning.federboost.histogram import Growth, Tree
from opboost_ops.learning.federboost.private_federboost import (
    Private,
    cell_ends,
    learn_private,
    sums_of,
)
from opboost_ops.learning.private import leaf_sums
from opboost_ops.learning.private import trainer as private_trainer
from opboost_ops.learning.private.backend import model_text
from opboost_ops.learning.private.leaf_sums import COUNT_UNITS
from opboost_ops.learning.private.sensitivity import LEAF_UNITS

#: Trees from exact sums.
GROWTH = Growth(depth=3, learning_rate=0.3, penalty=1.0, min_node_rows=20)
TREES, BUCKETS = 20, 16

#: Trees from which rows are rebuilt: later ones of many noisy ones add little.
REBUILT = 20

#: Parties, and the cost of noisy sums and of a shared model.
PARTIES, EPSILON, DELTA = 3, 4.0, 1e-6

#: Columns at most, those with most values; rows attacked; people who join between two runs.
COLUMNS, VICTIMS, JOINERS = 8, 400, 60

#: Cells of a column whose number is the secret.
CELLS = 10


@dataclass(frozen=True)
class Pool:
    """Rows of all parties as integers.

    Attributes:
        matrix: Training rows, shape (rows, columns).
        label: Theirs.
        test: Held-out rows.
        truth: Their labels.
        mine: Positions of the attacker's rows, a third.
        theirs: Positions of rows attacked.
        ends: By column, inner ends of the secret's cells.
    """

    matrix: np.ndarray
    label: np.ndarray
    test: np.ndarray
    truth: np.ndarray
    mine: np.ndarray
    theirs: np.ndarray
    ends: tuple[np.ndarray, ...]


def pool(table: TwoParties, seed: int) -> Pool:
    """The numeric columns of a table, held by parties with a third of the rows each.

    Args:
        table: The people.
        seed: Of who is with whom.
    """
    frame, test = table.frames("raw")
    numeric = [i for i, name in enumerate(frame.names) if name not in table.nominal]
    whole = np.nan_to_num(np.concatenate([frame.matrix, test])[:, numeric], nan=-1)
    most = np.argsort([-len(np.unique(column)) for column in whole.T], kind="stable")[:COLUMNS]
    low, high = whole.min(axis=0), whole.max(axis=0)
    # The range counts as public.
    share = (whole - low) / np.where(high > low, high - low, 1)
    integers = (1 + np.floor(share * (DOMAIN.size - 1))).astype(np.int64)[:, most]
    rows = integers[: table.train]
    order = np.random.default_rng(seed).permutation(table.train)
    third = table.train // PARTIES
    quantiles = np.linspace(0, 1, CELLS + 1)[1:-1]
    ends = tuple(np.unique(np.quantile(column, quantiles)) for column in rows.T)
    label = table.label.astype(np.int64)
    return Pool(
        rows, label[: table.train], integers[table.train :], label[table.train :],
        order[:third], order[third : third + VICTIMS], ends,
    )  # fmt: skip


@dataclass(frozen=True)
class Model:
    """What everyone with the model has.

    Attributes:
        auc: On held-out rows.
        trees: Leaves of each tree.
        start: Rows of each label, and the score before the first tree.
        rate: Learning rate.
        deviation: Of the noise on a leaf's sum of gradients.
    """

    auc: float
    trees: list[list[Leaf]]
    start: tuple[int, int, float]
    rate: float
    deviation: float = EXACT


def measured(protocol: str, table: TwoParties, seed: int) -> dict[str, float]:
    """AUC of a protocol, and what the attacks read.

    Args:
        protocol: One of `PROTOCOLS`.
        table: The people.
        seed: Of parties, training and attacks.
    """
    held = pool(table, seed)
    model = PROTOCOLS[protocol](held, seed)
    own = held.matrix[held.mine].astype(float)
    rows = reconstruct(model.trees[:REBUILT], model.start, own, model.rate, model.deviation, seed)
    made, labels = rows_of(rows, own, seed), rows.label
    victims = held.matrix[held.theirs].astype(float)
    columns = [at for at, ends in enumerate(held.ends) if len(ends) > 1]
    cells = [held.ends[at] for at in columns]
    secrets = [np.searchsorted(held.ends[at], victims[:, at]) for at in columns]
    found = {
        "auc": model.auc,
        "rows": rows_read(
            (own, held.label[held.mine]), (made, labels), (victims, held.label[held.theirs]),
            columns, cells, seed,
        ),
        "matched": matched(victims, made, VICTIMS, seed),
        "matched_own": matched(victims, own, VICTIMS, seed),
        "of_value": float(np.mean([entropy(secret) for secret in secrets])),
    }  # fmt: skip
    if protocol != "shared_model":
        found["joiner"] = joiner(held, protocol == "noisy", seed)
    return found


def _start(rows: float, score: float) -> tuple[int, int, float]:
    """Rows of each label where a model begins with their log odds."""
    positive = round(rows / (1 + float(np.exp(-score))))
    return round(rows) - positive, positive, score


def reproduced(file: str, seed: int) -> dict[str, float]:
    """TimberStrike's own setting: its stroke table, 100 trees of depth 3 from exact sums.

    Args:
        file: ``healthcare-dataset-stroke-prep-train.csv`` of the paper's repository, in the folder
            of datasets.
        seed: Of who is with whom.

    Returns:
        Percent of values matched by rebuilt rows, and by these with each column shuffled.
    """
    table = pl.read_csv(Path(os.environ[FOLDER]) / file)
    label = table.get_column("stroke").to_numpy()
    # Hundredths, so that boxes have whole ends.
    columns = table.drop("stroke").select(pl.all().cast(pl.Float64).fill_null(strategy="mean"))
    matrix = np.rint(100 * columns.to_numpy()).astype(np.int64)
    order = np.random.default_rng(seed).permutation(len(label))
    mine, theirs = np.split(order, [len(label) // PARTIES])
    held = Pool(matrix, label, matrix, label, mine, theirs, ())
    model, own = _histograms(held, seed, trees=100), matrix[mine].astype(float)
    made = rows_of(reconstruct(model.trees, model.start, own, model.rate, seed=seed), own, seed)
    random = np.random.default_rng(seed)
    shuffled = np.column_stack([random.permutation(column) for column in made.T])
    sets = {"rebuilt": made, "shuffled": shuffled}
    true = matrix.astype(float)
    return {name: round(matched(true, rows, 2000, seed), 2) for name, rows in sets.items()}


def _histograms(held: Pool, seed: int, trees: int = TREES) -> Model:
    """XGBoost on all rows, as NVFlare and FedTree grow it from sums of the parties' histograms.

    Each site has the model with the hessians of all nodes, from which gradients follow (NVFlare's
    saved model; FedTree's clients keep `sum_gh_pair` of each node).
    """
    rate, penalty = GROWTH.learning_rate, GROWTH.penalty
    settings = {"max_depth": GROWTH.depth, "eta": rate, "lambda": penalty, "seed": seed}
    nodes, scores = boosted(held.matrix, held.label, held.test, settings, trees)
    leaves: list[list[Leaf]] = [[] for _ in range(trees)]
    for node in nodes:
        if node.column is None:
            sums = (-node.value / rate * (node.hessian + penalty), node.hessian)
            leaves[node.tree].append(Leaf(node.low, node.high, node.value, sums))
    first = np.array([leaf.sums for leaf in leaves[0]], dtype=float).sum(axis=0)
    rows = first[1] / 0.25
    start = (round(rows / 2 + first[0]), round(rows / 2 - first[0]), 0.0)
    return Model(horizontal.auc(held.truth, scores) / 100, leaves, start, rate)


def _settings(held: Pool, trees: int, buckets: int, growth: Growth) -> Settings:
    return Settings(OBJECTIVE, (DOMAIN,) * held.matrix.shape[1], trees, buckets, growth)


def _exact(held: Pool, seed: int) -> Model:  # noqa: ARG001
    """Our sums without noise: each party has the decisions, with values and hessians of leaves."""
    settings = _settings(held, TREES, BUCKETS, GROWTH)
    ensemble = federboost.learn(list(held.matrix.T), held.label, settings, Alone())
    return _of(ensemble, held, GROWTH, sums=True)


def _noisy(held: Pool, seed: int) -> Model:  # noqa: ARG001
    """Our sums with noise of every party: random trees, and values of their leaves."""
    settings = _settings(held, private_federboost.TREES, private_federboost.BUCKETS, NOISY)
    private = Private(EPSILON, DELTA, PARTIES - 1)
    sums = sums_of(settings, private)
    rounds = NoisyAlone(PARTIES, sums.noise.means)
    ensemble = learn_private(list(held.matrix.T), held.label, settings, private, rounds)
    deviation = sums.noise.deviation("trees", PARTIES) / sums.units / 2
    return replace(_of(ensemble, held, NOISY, sums=False), deviation=deviation)


def _of(ensemble: Ensemble, held: Pool, growth: Growth, sums: bool) -> Model:
    start = _start(ensemble.facts.rows, ensemble.facts.initial[0])
    trees = [list(_leaves(each, ensemble, growth, sums)) for (each,) in ensemble.trees]
    scores = horizontal.scores(ensemble, list(held.test.T))
    return Model(horizontal.auc(held.truth, scores) / 100, trees, start, growth.learning_rate)


def _leaves(tree: Tree, ensemble: Ensemble, growth: Growth, sums: bool) -> list[Leaf]:
    width = len(ensemble.edges)
    waiting = [(0, np.full(width, -np.inf), np.full(width, np.inf))]
    leaves = []
    while waiting:
        node, low, high = waiting.pop()
        if node not in tree.splits:
            leaf = tree.leaves[node]
            gradient = -leaf.value / growth.learning_rate * (leaf.hessian + growth.penalty)
            both = (gradient, leaf.hessian) if sums else None
            leaves.append(Leaf(low, high, leaf.value, both))
            continue
        split, left, right = tree.splits[node]
        edge = ensemble.edges[split.feature][split.bin]
        below, above = high.copy(), low.copy()
        below[split.feature] = min(edge, below[split.feature])
        above[split.feature] = max(edge + 1, above[split.feature])
        waiting += [(left, low, below), (right, above, high)]
    return [leaf for leaf in leaves if (leaf.low <= leaf.high).all()]


def _shared_model(held: Pool, seed: int) -> Model:
    """`trainer: dpboost` with a delta on all rows at one party, which gives its model away."""
    width = held.matrix.shape[1]
    names = tuple(f"x{i}" for i in range(width))
    ends = tuple(float(end) + 0.5 for end in cell_ends(DOMAIN)[:-1])
    frame = Frame(names, held.matrix.astype(float), (), (), dict.fromkeys(names, ends))
    privacy = {"epsilon": EPSILON, "delta": DELTA, "splits": "random"}
    declared = DPBoostTraining.model_validate({"trainer": "dpboost", "private": privacy})
    parameters = replace(trainer.parameters_of(declared, "binary", (0, 1)), seed=seed)
    made = private_trainer.fit(frame, held.label, parameters)
    text = model_text(made.trees, made.candidates, parameters, (0.0, 1.0), made.initial)
    auc = horizontal.auc(held.truth, trainer.predict(text, held.test.astype(float))) / 100
    rate, trees = parameters.learning_rate, []
    for tree in made.trees:
        waiting = [(0, np.full(width, -np.inf), np.full(width, np.inf))]
        leaves = []
        while waiting:
            node, low, high = waiting.pop()
            if node >= len(tree.splits):
                value = tree.leaves[node - len(tree.splits)] / LEAF_UNITS * rate
                leaves.append(Leaf(low, high, value, None))
                continue
            split = tree.splits[node]
            feature = int(made.candidates.feature[split])
            cut = ends[int(made.candidates.high[split])]
            below, above = high.copy(), low.copy()
            below[feature], above[feature] = min(cut, high[feature]), max(cut, low[feature])
            waiting += [(2 * node + 1, low, below), (2 * node + 2, above, high)]
        trees.append([leaf for leaf in leaves if (leaf.low < leaf.high).all()])
    sums = leaf_sums.sums_of("binary", parameters.trees, EPSILON, DELTA)
    deviation = sums.noise.deviation("trees", 1) / sums.units / 2
    return Model(auc, trees, _start(len(held.label), made.initial), rate, deviation)


class _EnoughError(Exception):
    """What the attacker needs of a run has been added up."""


class _FirstSums(Alone):
    """Rounds up to the first sums that count rows by column and bin."""

    derives = False

    def __init__(self, phase: str, noise: NoisyAlone | None) -> None:
        self._phase, self._noise = phase, noise
        self.parties = noise.parties if noise else 1
        self.seen = np.zeros(0, dtype=np.int64)
        self.edges: tuple[tuple[int, ...], ...] = ()

    def step(self, name: Round, *more: Any) -> Any:
        """See `Rounds.step`."""
        if name.phase == self._phase:
            self.seen = self._sum(name, more[0], more[1])
            raise _EnoughError
        decision = super().step(name, *more)
        if searches := getattr(decision, "searches", ()):
            self.edges = tuple(search.edges for search in searches)
        return decision

    def _sum(self, name: Round, size: int, vector: Callable[[], np.ndarray]) -> np.ndarray:
        return self._noise._sum(name, size, vector) if self._noise else vector()


def joiner(held: Pool, noisy: bool, seed: int) -> float:
    """Bits of one value of a person whose row is in the second of two runs, and not in the first.

    The attacker has the sums over all parties, and subtracts the runs: where counts by bin differ
    by one, there the person is.

    Args:
        held: All rows.
        noisy: Whether sums have noise.
        seed: Of who joins.
    """
    random = np.random.default_rng(seed + 1)
    people = random.choice(held.theirs, size=min(JOINERS, len(held.theirs)), replace=False)
    everyone = np.arange(len(held.label))
    after = _counts(held, everyone, noisy)
    width = held.matrix.shape[1]
    own = np.sort(held.matrix[held.mine], axis=0)
    guesses = np.zeros((width, len(people)))
    for place, person in enumerate(people):
        if noisy:
            after = _counts(held, everyone, noisy)
        before = _counts(held, np.delete(everyone, person), noisy)
        for column in range(width):
            low, high = _where(before[column], after[column])
            # Within the bin, the middle one of the attacker's own rows.
            inside = own[(own[:, column] > low) & (own[:, column] <= high), column]
            guesses[column, place] = np.median(inside) if len(inside) else high
    read = []
    for column, ends in enumerate(held.ends):
        if len(ends) > 1:
            secret = np.searchsorted(ends, held.matrix[people, column])
            guess = np.searchsorted(ends, guesses[column])
            read.append(beyond(secret, guess, np.zeros_like(secret)))
    return float(np.mean(read))


def _where(before: Mapping[int, float], after: Mapping[int, float]) -> tuple[int, int]:
    """The ends of the bin in which a person is, from rows up to each end."""
    ends = sorted(set(before) & set(after))
    changes = np.diff([0.0, *(after[end] - before[end] for end in ends)])
    place = int(changes.argmax())
    return ends[place - 1] if place else 0, ends[place]


def _counts(held: Pool, rows: np.ndarray, noisy: bool) -> list[dict[int, float]]:
    """By column, the rows up to each bin's end, as the first sums of a run tell them."""
    columns, label = list(held.matrix[rows].T), held.label[rows]
    if noisy:
        settings = _settings(held, private_federboost.TREES, private_federboost.BUCKETS, NOISY)
        private = Private(EPSILON, DELTA, PARTIES - 1)
        noise = NoisyAlone(PARTIES, sums_of(settings, private).noise.means)
        rounds = _FirstSums("lookup", noise)
        _until_enough(lambda: learn_private(columns, label, settings, private, rounds))
        parts = np.split(rounds.seen / COUNT_UNITS, len(columns))
        return [
            dict(zip(map(int, cell_ends(DOMAIN)), np.cumsum(part), strict=True)) for part in parts
        ]
    settings = _settings(held, 1, BUCKETS, GROWTH)
    rounds = _FirstSums("trees", None)
    _until_enough(lambda: federboost.learn(columns, label, settings, rounds))
    counts = rounds.seen.reshape(-1, 3)[:, 2]
    begin, found = 0, []
    for edges in rounds.edges:
        part = counts[begin : begin + len(edges) + 1]
        found.append(dict(zip([*edges, DOMAIN.upper], np.cumsum(part), strict=True)))
        begin += len(edges) + 1
    return found


def _until_enough(run: Callable[[], object]) -> None:
    try:
        run()
    except _EnoughError:
        return


#: How each discloses, by name.
PROTOCOLS: Mapping[str, Callable[[Pool, int], Model]] = {
    "histograms": _histograms,
    "exact": _exact,
    "noisy": _noisy,
    "shared_model": _shared_model,
}

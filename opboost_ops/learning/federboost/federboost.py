"""Horizontal FederBoost (Protocol 4): rounds of sums, each followed by a decision of one party.

`Rounds` adds up the parties' vectors, so this module is independent of files and other parties.
Decisions contain everything that the next vector depends on, so an interrupted training can resume
from them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from opboost_ops.config.schema import Record
from opboost_ops.domain import Domain
from opboost_ops.exchange.rounds.protocol import Round, Rounds
from opboost_ops.learning.federboost import histogram, quantiles
from opboost_ops.learning.federboost.histogram import (
    Count,
    Derivatives,
    Growth,
    Leaf,
    Rows,
    Split,
    Tree,
    Weight,
)
from opboost_ops.learning.federboost.objectives import MAX_ROWS, ONE, Objective, require_room
from opboost_ops.learning.federboost.quantiles import Search, SortedColumns

#: The sums of one tree by node, flattened.
Sums = dict[int, np.ndarray]


class Facts(Record):
    """The first decision.

    Attributes:
        rows: Training rows of all parties.
        initial: Initial score of each tree of a round.
        missing: Number of missing values, by column that may have any; empty if sums have noise.
    """

    rows: Count
    initial: tuple[Weight, ...]
    missing: tuple[Count, ...] = ()


class Lookup(Record):
    """The decision of a round of the quantile lookup: its state by column."""

    searches: tuple[Search, ...]


class Level(Record):
    """The decision of a level: the splits of all open nodes.

    Attributes:
        splits: Splits by tree and open node; None if a node stays a leaf.
        roots: Value and sums of the roots; only at the first level.
    """

    splits: tuple[tuple[Split | None, ...], ...]
    roots: tuple[Leaf, ...] = ()


@dataclass(frozen=True)
class Settings:
    """Training settings, which are the same at all parties.

    Attributes:
        objective: The loss.
        domains: Domain of each column.
        trees: Boosting rounds.
        buckets: Greatest number of buckets per column.
        growth: Limits of growing trees.
        keeps: Per column, True if values may be missing, as declared; empty if all are False. The
            integer above the domain represents a missing value.
    """

    objective: Objective
    domains: tuple[Domain, ...]
    trees: int
    buckets: int
    growth: Growth
    keeps: tuple[bool, ...] = ()

    @property
    def missing(self) -> tuple[int | None, ...]:
        """The integer that represents a missing value, by column; None if none may be missing."""
        keeps = self.keeps or (False,) * len(self.domains)
        return tuple(
            domain.upper + 1 if keep else None
            for domain, keep in zip(self.domains, keeps, strict=True)
        )

    def binned(self, columns: Sequence[np.ndarray], edges: Sequence[Sequence[int]]) -> Rows:
        """Return a party's binned rows.

        Args:
            columns: Domain integers, one array of shape (n,) per column.
            edges: Bucket edges of each column.
        """
        keeps = [gap is not None for gap in self.missing]
        widths = [len(ends) + 1 + keep for ends, keep in zip(edges, keeps, strict=True)]
        return Rows(quantiles.bins_of(columns, edges, self.missing), widths, keeps)


@dataclass(eq=False)
class Ensemble:
    """A trained model.

    Attributes:
        facts: The first decision, with initial scores.
        edges: Bucket edges by column: the greatest domain integer of each bucket except the last.
        trees: Trees by boosting round: one, or one per class.
    """

    facts: Facts
    edges: tuple[tuple[int, ...], ...]
    trees: list[list[Tree]] = field(default_factory=list)


def learn(
    columns: Sequence[np.ndarray],
    label: np.ndarray,
    settings: Settings,
    rounds: Rounds,
    progress: Callable[[int], None] = lambda _: None,
) -> Ensemble:
    """Train together with all parties, each of which obtains the same model.

    Args:
        columns: This party's rows: domain integers, one array of shape (n,) per column.
        label: This party's labels: class indices or numbers, shape (n,).
        settings: Training settings.
        rounds: Adds up the vectors of all parties.
        progress: Called with the number of finished boosting rounds, after each.

    Raises:
        ConfigError: The sums could overflow.
        ContractError: Labels are outside their bounds, or a decision does not fit its round.
    """
    objective = settings.objective
    require_room(len(label), rounds.parties)
    truth = objective.scaled(label)
    gaps = {at: gap for at, gap in enumerate(settings.missing) if gap is not None}

    def totals() -> np.ndarray:
        missing = [np.count_nonzero(columns[at] == gap) for at, gap in gaps.items()]
        return np.concatenate([objective.totals(truth), np.array(missing, dtype=np.int64)])

    def open_run(sums: np.ndarray) -> Facts:
        facts, missing = [
            [int(s) for s in part] for part in np.split(sums, [objective.totals_count])
        ]
        return Facts(rows=facts[0], initial=objective.initial(facts), missing=tuple(missing))

    size = objective.totals_count + len(gaps)
    bounds = [MAX_ROWS] * size
    if objective.task == "regression":
        bounds[1] *= ONE
    facts = rounds.step(Round("facts"), size, totals, open_run, Facts, bounds)
    if len(facts.missing) != len(gaps) or len(facts.initial) != objective.trees:
        raise Round("facts").unfit()
    missing = dict(zip(gaps, facts.missing, strict=True))
    present = [facts.rows - missing.get(at, 0) for at in range(len(columns))]
    edges = find_edges(columns, settings, present, rounds)
    rows = settings.binned(columns, edges)
    ensemble = Ensemble(facts, edges)
    scores = np.repeat(np.array(facts.initial)[:, None], len(label), axis=1)
    for number in range(settings.trees):
        trees, nodes = _grow(rows, scores, truth, settings, rounds, number)
        for at, tree in enumerate(trees):
            scores[at] += np.array([leaf.value for leaf in tree.leaves])[nodes[at]]
        ensemble.trees.append(trees)
        progress(number + 1)
    return ensemble


def find_edges(
    columns: Sequence[np.ndarray], settings: Settings, rows: Sequence[int], rounds: Rounds
) -> tuple[tuple[int, ...], ...]:
    """Find the bucket edges of all columns in at most ceil(log2 |D|) rounds.

    Args:
        columns: This party's rows: domain integers, one array per column.
        settings: Training settings.
        rows: Number of rows of all parties with a value, by column.
        rounds: Adds up the vectors of all parties.
    """
    ordered = SortedColumns(columns)
    searches = quantiles.begin(settings.domains, settings.buckets)
    level = 0
    while not all(search.done for search in searches):
        before = searches

        def narrow(sums: np.ndarray, before: tuple[Search, ...] = before) -> Lookup:
            return Lookup(searches=quantiles.narrow(before, sums, rows, settings.buckets))

        def counts(before: tuple[Search, ...] = before) -> np.ndarray:
            return ordered.counts(before)

        name = Round("lookup", level=level)
        size = quantiles.size_of(before)
        searches = rounds.step(name, size, counts, narrow, Lookup, (MAX_ROWS,)).searches
        if not _is_refinement(before, searches, settings.buckets):
            raise name.unfit()
        level += 1
    return tuple(search.edges for search in searches)


def requested_nodes(tree: Tree | None, opened: Sequence[int], derives: bool) -> list[int]:
    """Return the nodes whose sums are requested: of two open siblings, the one with fewer rows.

    Args:
        tree: The tree so far; None before its root is known.
        opened: Open nodes of the tree.
        derives: Sums of siblings are derived from their parent; otherwise all open nodes are
            requested.
    """
    if tree is None or not derives:
        return list(opened)
    rows = {node: (tree.leaves[node].rows, node) for node in opened}
    return [node for node in opened if not rows.get(sibling_of(node), rows[node]) < rows[node]]


def sibling_of(node: int) -> int:
    """Return the other child of a node's parent; -1 for the root. Left children are odd."""
    return node + 1 if node % 2 else node - 1


class Levels:
    """The sums of all open nodes of a boosting round by level, at the party that decides.

    Args:
        rounds: Provides the sums of levels that were decided before a retry.
    """

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds
        self._levels: list[tuple[Round, list[list[int]], list[list[int]]]] = []
        self._sums: dict[int, list[Sums]] = {}

    def add(self, name: Round, requested: list[list[int]], opened: list[list[int]]) -> None:
        """Add the next level.

        Args:
            name: Its round.
            requested: Requested nodes by tree.
            opened: All open nodes by tree.
        """
        self._levels.append((name, requested, opened))

    def open_sums(self, sums: np.ndarray, trees: Sequence[Tree]) -> list[np.ndarray]:
        """Return the sums of all open nodes of the last level by tree, flattened.

        Args:
            sums: Sums of the requested nodes.
            trees: Trees before that level's splits; empty at the first level.
        """
        level = len(self._levels) - 1
        tables = self._complete(level, sums, trees)
        opened = self._levels[level][2]
        none = np.zeros(0, dtype=np.int64)
        return [
            np.concatenate([table[node] for node in nodes]) if nodes else none
            for table, nodes in zip(tables, opened, strict=True)
        ]

    def _complete(self, level: int, sums: np.ndarray, trees: Sequence[Tree]) -> list[Sums]:
        _, requested, opened = self._levels[level]
        rows = iter(sums.reshape(sum(map(len, requested)), -1))
        tables: list[Sums] = [{node: next(rows) for node in nodes} for nodes in requested]
        if any(set(a) != set(o) for a, o in zip(requested, opened, strict=True)):
            if level - 1 not in self._sums:
                before = self._rounds.total(self._levels[level - 1][0])
                self._complete(level - 1, before, trees)
            for at, tree in enumerate(trees):
                parents = {c: node for node, (_, *both) in tree.splits.items() for c in both}
                for node in set(opened[at]) - set(tables[at]):
                    parent = self._sums[level - 1][at][parents[node]]
                    tables[at][node] = parent - tables[at][sibling_of(node)]
        self._sums[level] = tables
        return tables


def _grow(
    rows: Rows,
    scores: np.ndarray,
    truth: np.ndarray,
    settings: Settings,
    rounds: Rounds,
    number: int,
) -> tuple[list[Tree], list[np.ndarray]]:
    growth, count = settings.growth, settings.objective.trees
    bounds = [each * MAX_ROWS for each in (*settings.objective.max_derivatives, 1)]
    derivatives: list[Derivatives] = []
    trees: list[Tree] = []
    nodes = [np.zeros(rows.count, dtype=np.int64)] * count
    opened = [[0]] * count
    levels = Levels(rounds)
    for level in range(growth.depth):
        if not any(opened):
            break
        current: list[Tree | None] = [*trees] or [None] * count
        requested = [
            requested_nodes(tree, each, rounds.derives)
            for tree, each in zip(current, opened, strict=True)
        ]  # fmt: skip
        size = sum(histogram.size_of(rows.widths, each) for each in requested)

        def vector(requested: list[list[int]] = requested) -> np.ndarray:
            if not derivatives:
                pairs = settings.objective.derivatives(scores, truth)
                derivatives.extend(Derivatives.of(g, h) for g, h in zip(*pairs, strict=True))
            parts = zip(derivatives, nodes, requested, strict=True)
            return np.concatenate([histogram.histograms(rows, *part) for part in parts])

        def decide(sums: np.ndarray, before: list[Tree] = trees, level: int = level) -> Level:
            parts = levels.open_sums(sums, before)
            decided = [histogram.decide(part, rows.widths, rows.keeps, growth) for part in parts]
            roots = [leaves[0] for leaves, _ in decided] if level == 0 else []
            return Level(splits=tuple(tuple(s) for _, s in decided), roots=tuple(roots))

        name = Round("trees", number, level)
        levels.add(name, requested, opened)
        decision = rounds.step(name, size, vector, decide, Level, bounds)
        if not _fits(decision, opened, rows.widths, count if level == 0 else 0):
            raise name.unfit()
        trees = trees or [Tree.from_root(root) for root in decision.roots]
        for at, tree in enumerate(trees):
            before = opened[at]
            tree.grow(decision.splits[at], growth, last=level + 1 == growth.depth)
            nodes[at] = histogram.apply(rows, nodes[at], tree, before)
        opened = [tree.open for tree in trees]
    return trees, nodes


def _fits(
    decision: Level, opened: Sequence[Sequence[int]], widths: Sequence[int], roots: int
) -> bool:
    return (
        [len(splits) for splits in decision.splits] == [len(nodes) for nodes in opened]
        and len(decision.roots) == roots
        and all(
            split is None
            or (0 <= split.feature < len(widths) and 0 <= split.bin < widths[split.feature] - 1)
            for splits in decision.splits
            for split in splits
        )
    )


def _is_refinement(before: Sequence[Search], after: Sequence[Search], buckets: int) -> bool:
    """True if a decision only halves the open intervals of the preceding state.

    It must not have more intervals with rows than buckets: more would request the whole
    distribution, which the ledger does not cover.
    """
    return len(before) == len(after) and all(
        len(old.quantiles) == len(new.quantiles)
        and len(new.present or ()) <= buckets
        and all(n in quantiles.halves(o) for o, n in zip(old.quantiles, new.quantiles, strict=True))
        and set(new.present or ())
        <= {half for o in old.present or () for half in quantiles.halves(o)}
        for old, new in zip(before, after, strict=False)
    )

"""FederBoost, horizontal (Protocol 4): rounds of sums, and a decision of one party after each.

What is here knows neither files nor other parties: `Rounds` brings the parties' vectors together.
Decisions say all that the next vector depends on, so that anyone who has them can go on from there.
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
from opboost_ops.learning.federboost.objectives import MOST_ROWS, ONE, Objective, require_room
from opboost_ops.learning.federboost.quantiles import Ordered, Search


class Facts(Record):
    """First decision.

    Attributes:
        rows: Training rows of all parties.
        initial: The initial score of each tree of a round.
        missing: How many of the rows miss a value, by column that may miss any; empty where sums
            have noise.
    """

    rows: Count
    initial: tuple[Weight, ...]
    missing: tuple[Count, ...] = ()


class Lookup(Record):
    """Decision of a round of the quantile lookup: how far it is, by column."""

    searches: tuple[Search, ...]


class Level(Record):
    """Decision of a level: by tree of the round, the splits of its open nodes.

    Attributes:
        splits: None where a node stays a leaf.
        roots: What is known of the roots; empty but at the first level.
    """

    splits: tuple[tuple[Split | None, ...], ...]
    roots: tuple[Leaf, ...] = ()


@dataclass(frozen=True)
class Settings:
    """Settings of learning; the same at all parties.

    Attributes:
        objective: The loss.
        domains: Of each column.
        trees: Boosting rounds.
        buckets: At most how many buckets a column's values get.
        growth: How trees grow.
        keeps: Of each column, whether it may miss values; it is declared, and nobody's rows tell.
            Empty where none may. A missing value is the integer above the domain.
    """

    objective: Objective
    domains: tuple[Domain, ...]
    trees: int
    buckets: int
    growth: Growth
    keeps: tuple[bool, ...] = ()

    @property
    def missing(self) -> tuple[int | None, ...]:
        """The integer that stands for a missing value, by column; None where there may be none."""
        keeps = self.keeps or (False,) * len(self.domains)
        return tuple(
            domain.upper + 1 if keep else None
            for domain, keep in zip(self.domains, keeps, strict=True)
        )

    def binned(self, columns: Sequence[np.ndarray], edges: Sequence[Sequence[int]]) -> Rows:
        """A party's rows by bin.

        Args:
            columns: Domain integers, one array of shape (n,) a column.
            edges: Bucket edges of each column.
        """
        keeps = [gap is not None for gap in self.missing]
        widths = [len(ends) + 1 + keep for ends, keep in zip(edges, keeps, strict=True)]
        return Rows(quantiles.bins_of(columns, edges, self.missing), widths, keeps)


@dataclass(eq=False)
class Ensemble:
    """A trained model.

    Attributes:
        facts: How it begins.
        edges: Bucket edges by column: domain integers that close a bucket.
        trees: By boosting round, one tree or one a class.
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
    """Train with all parties; every one of them ends with the same model.

    Args:
        columns: This party's rows: domain integers, one array of shape (n,) a column.
        label: Its labels: class indices or numbers, shape (n,).
        settings: What is learnt, and how.
        rounds: The way to the others.
        progress: Called with the number of trees finished, after each boosting round.

    Raises:
        ConfigError: The sums might overflow.
        ContractError: Labels are out of their bounds, or a decision does not fit its round.
    """
    objective = settings.objective
    require_room(len(label), rounds.parties)
    truth = objective.scaled(label)
    gaps = {at: gap for at, gap in enumerate(settings.missing) if gap is not None}

    def tell() -> np.ndarray:
        missing = [np.count_nonzero(columns[at] == gap) for at, gap in gaps.items()]
        return np.concatenate([objective.tell(truth), np.array(missing, dtype=np.int64)])

    def open_run(sums: np.ndarray) -> Facts:
        facts, missing = [[int(s) for s in part] for part in np.split(sums, [objective.facts])]
        return Facts(rows=facts[0], initial=objective.initial(facts), missing=tuple(missing))

    size = objective.facts + len(gaps)
    bounds = [MOST_ROWS] * size
    if objective.task == "regression":
        bounds[1] *= ONE
    facts = rounds.step(Round("facts"), size, tell, open_run, Facts, bounds)
    if len(facts.missing) != len(gaps) or len(facts.initial) != objective.trees:
        raise Round("facts").unfit()
    missing = dict(zip(gaps, facts.missing, strict=True))
    present = [facts.rows - missing.get(at, 0) for at in range(len(columns))]
    edges = look_up(columns, settings, present, rounds)
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


def look_up(
    columns: Sequence[np.ndarray], settings: Settings, rows: Sequence[int], rounds: Rounds
) -> tuple[tuple[int, ...], ...]:
    """Bucket edges of all columns, by at most ceil(log2 |D|) rounds.

    Args:
        columns: This party's rows: domain integers, one array a column.
        settings: What is learnt, and how.
        rows: Of all parties, those that have a value; by column.
        rounds: The way to the others.
    """
    ordered = Ordered(columns)
    searches = quantiles.begin(settings.domains, settings.buckets)
    level = 0
    while not all(search.over for search in searches):
        before = searches

        def narrow(sums: np.ndarray, before: tuple[Search, ...] = before) -> Lookup:
            return Lookup(searches=quantiles.narrow(before, sums, rows, settings.buckets))

        def counts(before: tuple[Search, ...] = before) -> np.ndarray:
            return ordered.counts(before)

        name = Round("lookup", level=level)
        size = quantiles.size_of(before)
        searches = rounds.step(name, size, counts, narrow, Lookup, (MOST_ROWS,)).searches
        if not _narrower(before, searches, settings.buckets):
            raise name.unfit()
        level += 1
    return tuple(search.edges for search in searches)


def _grow(
    rows: Rows,
    scores: np.ndarray,
    truth: np.ndarray,
    settings: Settings,
    rounds: Rounds,
    number: int,
) -> tuple[list[Tree], list[np.ndarray]]:
    growth, count = settings.growth, settings.objective.trees
    bounds = [each * MOST_ROWS for each in (*settings.objective.steepest, 1)]
    derivatives: list[Derivatives] = []
    trees: list[Tree] = []
    nodes = [np.zeros(rows.count, dtype=np.int64)] * count
    opened = [[0]] * count
    levels = Levels(rounds)
    for level in range(growth.depth):
        if not any(opened):
            break
        planted: list[Tree | None] = [*trees] or [None] * count
        wanted = [
            asked_of(tree, each, rounds.derives)
            for tree, each in zip(planted, opened, strict=True)
        ]  # fmt: skip
        size = sum(histogram.size_of(rows.widths, each) for each in wanted)

        def vector(wanted: list[list[int]] = wanted) -> np.ndarray:
            if not derivatives:
                pairs = settings.objective.derivatives(scores, truth)
                derivatives.extend(Derivatives.of(g, h) for g, h in zip(*pairs, strict=True))
            parts = zip(derivatives, nodes, wanted, strict=True)
            return np.concatenate([histogram.histograms(rows, *part) for part in parts])

        def decide(sums: np.ndarray, before: list[Tree] = trees, level: int = level) -> Level:
            parts = levels.whole(sums, before)
            decided = [histogram.decide(part, rows.widths, rows.keeps, growth) for part in parts]
            roots = [leaves[0] for leaves, _ in decided] if level == 0 else []
            return Level(splits=tuple(tuple(s) for _, s in decided), roots=tuple(roots))

        name = Round("trees", number, level)
        levels.ask(name, wanted, opened)
        decision = rounds.step(name, size, vector, decide, Level, bounds)
        if not _fits(decision, opened, rows.widths, count if level == 0 else 0):
            raise name.unfit()
        trees = trees or [Tree.planted(root) for root in decision.roots]
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


def _narrower(before: Sequence[Search], after: Sequence[Search], buckets: int) -> bool:
    """True if a decision takes halves of every open interval of the search before.

    Of no more intervals with rows than there are buckets: more would ask for the whole
    distribution, beyond what the ledger says.
    """
    return len(before) == len(after) and all(
        len(old.quantiles) == len(new.quantiles)
        and len(new.present or ()) <= buckets
        and all(n in quantiles.halves(o) for o, n in zip(old.quantiles, new.quantiles, strict=True))
        and set(new.present or ())
        <= {half for o in old.present or () for half in quantiles.halves(o)}
        for old, new in zip(before, after, strict=False)
    )


#: By node of one tree, its sums, flat.
Sums = dict[int, np.ndarray]


def asked_of(tree: Tree | None, opened: Sequence[int], derives: bool) -> list[int]:
    """The nodes whose sums are asked for: of two open siblings the one of fewer rows.

    Args:
        tree: So far; None before its root is known.
        opened: Its open nodes.
        derives: Whether siblings are derived; all open nodes are asked for otherwise.
    """
    if tree is None or not derives:
        return list(opened)
    rows = {node: (tree.leaves[node].rows, node) for node in opened}
    return [node for node in opened if not rows.get(sibling_of(node), rows[node]) < rows[node]]


def sibling_of(node: int) -> int:
    """The other child of a node's parent; -1 for the root.

    Args:
        node: Its number: children come in twos, the left one with an odd number.
    """
    return node + 1 if node % 2 else node - 1


class Levels:
    """The sums of all open nodes of a boosting round, level by level, at the party that decides.

    Args:
        rounds: Gives the sums of a level that was decided before a retry.
    """

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds
        self._asked: list[tuple[Round, list[list[int]], list[list[int]]]] = []
        self._known: dict[int, list[Sums]] = {}

    def ask(self, name: Round, wanted: list[list[int]], opened: list[list[int]]) -> None:
        """Note the next level.

        Args:
            name: Its round.
            wanted: By tree, the nodes that are asked for.
            opened: By tree, all open nodes.
        """
        self._asked.append((name, wanted, opened))

    def whole(self, sums: np.ndarray, trees: Sequence[Tree]) -> list[np.ndarray]:
        """By tree, the sums of all open nodes of the last level, flat.

        Args:
            sums: Of the nodes that were asked for.
            trees: Before that level's splits; none at the first level.
        """
        level = len(self._asked) - 1
        tables = self._complete(level, sums, trees)
        opened = self._asked[level][2]
        none = np.zeros(0, dtype=np.int64)
        return [
            np.concatenate([of[node] for node in nodes]) if nodes else none
            for of, nodes in zip(tables, opened, strict=True)
        ]

    def _complete(self, level: int, sums: np.ndarray, trees: Sequence[Tree]) -> list[Sums]:
        _, wanted, opened = self._asked[level]
        rows = iter(sums.reshape(sum(map(len, wanted)), -1))
        tables: list[Sums] = [{node: next(rows) for node in nodes} for nodes in wanted]
        if any(set(a) != set(o) for a, o in zip(wanted, opened, strict=True)):
            if level - 1 not in self._known:
                before = self._rounds.total(self._asked[level - 1][0])
                self._complete(level - 1, before, trees)
            for at, tree in enumerate(trees):
                parents = {c: node for node, (_, *both) in tree.splits.items() for c in both}
                for node in set(opened[at]) - set(tables[at]):
                    parent = self._known[level - 1][at][parents[node]]
                    tables[at][node] = parent - tables[at][sibling_of(node)]
        self._known[level] = tables
        return tables

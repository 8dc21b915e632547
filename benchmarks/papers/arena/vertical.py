"""What vertical protocols disclose of one table, split between a label and a feature holder."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.papers.arena.attacks import TAU, entropy, labels_read, values_read
from benchmarks.papers.settings import on_ten
from benchmarks.papers.two_parties import DEPTH, RATE, TREES, TwoParties
from opboost_ops.extras.datasets import load
from opboost_ops.extras.datasets.tables import ID, Dataset
from opboost_ops.learning import splits
from opboost_ops.learning.boosters import trainer
from opboost_ops.learning.boosters.backend import Frame

#: People of each draw, a fifth of them held out.
ROWS = 3000

#: Share of the label holder's people whom the feature holder has, under a left join.
OVERLAP = 0.5

_GENERATED = "credit"


def people(name: str, seed: int, rows: int = ROWS) -> TwoParties:
    """A draw of people of a table, divided between the label holder and one other party.

    Args:
        name: Of the table.
        seed: Of the draw.
        rows: How many people.
    """
    dataset = load(name, seed=seed, rows=2 * rows) if name == _GENERATED else load(name)
    return TwoParties(_drawn(dataset, rows, seed), "linear", seed)


def _drawn(dataset: Dataset, rows: int, seed: int) -> Dataset:
    parties = list(dataset.tables)
    # The last of several feature holders.
    other = [party for party in parties if party != dataset.label_holder][-1]
    first, second = (dataset.tables[party] for party in (dataset.label_holder, other))
    common = first.join(second, on=ID, how="semi").get_column(ID)
    some = common.sample(min(rows, len(common)), seed=seed, shuffle=True).to_frame()
    tables = {
        dataset.label_holder: some.join(first, on=ID, how="inner", maintain_order="left"),
        other: some.join(second, on=ID, how="inner", maintain_order="left"),
    }
    features = {party: dataset.features[party] for party in tables}
    return replace(dataset, tables=tables, features=features)


@dataclass(frozen=True)
class Seen:
    """What a protocol discloses of each training row.

    Attributes:
        auc: Of held-out rows, as the protocol scores them.
        values: What the label holder sees of the feature holder's columns, shape (people, some).
        members: What the feature holder sees of nodes, weighted, shape (people, nodes); None where
            it sees the labels themselves.
        rows: Which rows the feature holder has; None for all.
    """

    auc: float
    values: np.ndarray
    members: np.ndarray | None
    rows: np.ndarray | None = None


def measured(protocol: str, table: TwoParties, seed: int) -> dict[str, float]:
    """AUC of a protocol, and what the attacks read.

    Args:
        protocol: One of `PROTOCOLS`.
        table: The people.
        seed: Of noise, training and attacks.
    """
    seen = PROTOCOLS[protocol](table, seed)
    rows = np.ones(table.train, dtype=bool) if seen.rows is None else seen.rows
    frame, _ = table.frames("raw")
    matrix, label = np.nan_to_num(frame.matrix, nan=-1)[rows], table.label[: table.train][rows]
    own = matrix[:, : len(table.own)]
    # The label holder knows labels, too.
    before = np.column_stack([own, label])
    secrets = {name: cells[rows] for name, cells in table.protected.items()}
    found = values_read(secrets, seen.values[rows], before, seed)
    if seen.members is None:
        found["label"] = entropy(label)
    else:
        theirs = matrix[:, len(table.own) :]
        found["label"] = labels_read(label, seen.members[rows], theirs, seed)
    entropies = [entropy(cells) for cells in secrets.values()]
    most = {"of_label": entropy(label), "of_value": float(np.mean(entropies))}
    return {"auc": seen.auc, **found, **most}


def _pooled(table: TwoParties, seed: int) -> Seen:
    frame, test = table.frames("raw")
    model = table.trained(frame, table.parameters(seed))
    return Seen(table.figure(model, test), np.column_stack(list(table.protected.values())), None)


def _alone(table: TwoParties, seed: int) -> Seen:
    """The label holder's own columns: nothing is disclosed."""
    frame, test = table.frames("alone")
    model = table.trained(frame, table.parameters(seed))
    nothing = np.empty((table.train, 0))
    return Seen(table.figure(model, test), nothing, nothing)


def _desensitised(table: TwoParties, seed: int, releases: int = 1) -> Seen:
    """Ranks of randomised values to the label holder, split ranks to the feature holder."""
    mechanism = on_ten()
    frame, _ = table.frames("released", mechanism)
    partial = trainer.train(frame, table.label[: table.train], table.parameters(seed))
    model = table.materialised(partial, frame)
    sent = [np.column_stack(list(table.released(mechanism, k).values())) for k in range(releases)]
    return Seen(
        table.figure(model, table.desensitised(mechanism)),
        np.column_stack(sent),
        _sides(frame, splits.used_splits(partial, frame.ranked)),
    )


def _sides(frame: Frame, used: Mapping[str, list[int]]) -> np.ndarray:
    """On which side of each split of its columns a feature holder's row lies."""
    columns = [
        frame.matrix[:, frame.names.index(name)] <= rank
        for name, ranks in used.items()
        for rank in ranks
    ]
    return np.column_stack(columns).astype(float) if columns else np.empty((len(frame.matrix), 0))


def _year(table: TwoParties, seed: int) -> Seen:
    """A year of nights under `refresh: never`: each sends the pinned responses again."""
    seen = _desensitised(table, seed)
    again = [table.released(on_ten()) for _ in range(2)]
    nights = np.stack([np.column_stack(list(night.values())) for night in again])
    # Copies tell no more than the first: other nights would be other columns here.
    different = np.unique(nights, axis=0)
    return replace(seen, values=np.column_stack(list(different)))


def _yearly(table: TwoParties, seed: int) -> Seen:
    """`refresh: yearly`, after the second release: both at the full loss."""
    return _desensitised(table, seed, releases=2)


def _routed(table: TwoParties, seed: int) -> Seen:
    """Scores of exact values: also between which thresholds of the model each value lies."""
    mechanism = on_ten()
    seen = _desensitised(table, seed)
    frame, clear = table.frames("released", mechanism)
    model = table.trained(frame, table.parameters(seed))
    ends = (table.maps[frame.ranked[0]].domain.lower, table.maps[frame.ranked[0]].domain.upper)
    cut = splits.domain_thresholds(model, dict.fromkeys(frame.ranked, ends))
    between = [np.searchsorted(cut[name], table.protected[name]) for name in cut]
    return replace(
        seen, auc=table.figure(model, clear), values=np.column_stack([seen.values, *between])
    )


def _left(table: TwoParties, seed: int) -> Seen:
    """`overlap: left`: everybody is scored, and half of them without the other's columns."""
    mechanism = on_ten()
    whole, _ = table.frames("released", mechanism)
    random = np.random.default_rng(seed)
    there = random.random(table.train) < OVERLAP
    theirs = np.isin(whole.names, whole.ranked)
    matrix = np.asfortranarray(np.where(theirs & ~there[:, None], np.nan, whole.matrix))
    frame = Frame(whole.names, matrix, whole.categorical, whole.ranked)
    partial = trainer.train(frame, table.label[: table.train], table.parameters(seed))
    model = table.materialised(partial, frame, missing=True)
    test = table.desensitised(mechanism)
    absent = random.random(len(test)) >= OVERLAP
    test = np.asfortranarray(np.where(theirs & absent[:, None], np.nan, test))
    highest = {name: int(np.nanmax(matrix[:, whole.names.index(name)])) for name in whole.ranked}
    sent = np.column_stack(list(table.released(mechanism).values()))
    used = splits.used_splits(partial, frame.ranked, highest)
    return Seen(table.figure(model, test), sent, _sides(whole, used), there)


@dataclass(frozen=True)
class Node:
    """A node of a tree on training rows.

    Attributes:
        tree: Its number.
        column: By which it splits; None for a leaf.
        members: Its rows, boolean, shape (rows,).
        left: Those that go left.
        low, high: Its box by column, rows being integers.
        hessian: Sum of its rows' hessians.
        value: Of a leaf, as shrunk.
    """

    tree: int
    column: int | None
    members: np.ndarray
    left: np.ndarray
    low: np.ndarray
    high: np.ndarray
    hessian: float
    value: float


def boosted(
    matrix: np.ndarray, label: np.ndarray, test: np.ndarray, settings: Mapping[str, Any], trees: int
) -> tuple[list[Node], np.ndarray]:
    """XGBoost's nodes on its training rows, and scores of test rows.

    Args:
        matrix: Training rows without gaps.
        label: 0 or 1.
        test: Rows to score.
        settings: Of the booster.
        trees: How many.
    """
    import xgboost

    common = {"objective": "binary:logistic", "base_score": 0.5, "nthread": 1, "verbosity": 0}
    rows = matrix.astype(np.float32)
    data = xgboost.DMatrix(rows, label)
    model = xgboost.train({**common, **settings}, data, trees)
    nodes = [
        node
        for number, text in enumerate(model.get_dump(dump_format="json", with_stats=True))
        for node in _walk(json.loads(text), number, rows)
    ]
    return nodes, model.predict(xgboost.DMatrix(test.astype(np.float32)))


def _walk(root: Mapping[str, Any], tree: int, rows: np.ndarray) -> Iterator[Node]:
    width = rows.shape[1]
    everywhere = np.full(width, -np.inf), np.full(width, np.inf)
    waiting = [(root, np.ones(len(rows), dtype=bool), *everywhere)]
    while waiting:
        node, members, low, high = waiting.pop()
        if "leaf" in node:
            none = np.zeros(len(rows), dtype=bool)
            yield Node(tree, None, members, none, low, high, node["cover"], node["leaf"])
            continue
        column, cut = int(node["split"][1:]), np.float32(node["split_condition"])
        left = members & (rows[:, column] < cut)
        yield Node(tree, column, members, left, low, high, node["cover"], 0.0)
        below, above = high.copy(), low.copy()
        below[column], above[column] = np.ceil(cut) - 1, np.ceil(cut)
        children = {child["nodeid"]: child for child in node["children"]}
        waiting.append((children[node["yes"]], left, low, below))
        waiting.append((children[node["no"]], members & ~left, above, high))


def _secureboost(table: TwoParties, seed: int, leaves: bool) -> Seen:
    """Trees on clear columns; node memberships to one side, sides of splits to the other.

    FATE sends the node of every sample to the host after each layer, the leaves' included
    (`new_sample_pos` in decision_tree/hetero/guest.py and host.py), and the guest gets the
    host's children (`updated_data`). SecretFlow sends the samples of nodes that are to be split
    to each worker (`children_split_node_selects`), and left children's to the label holder
    (`lchild_selects`).
    """
    frame, test = table.frames("raw")
    matrix = np.nan_to_num(frame.matrix, nan=-1)
    settings = {"max_depth": DEPTH, "eta": RATE, "seed": seed}
    label = table.label[: table.train]
    nodes, scores = boosted(matrix, label, np.nan_to_num(test, nan=-1), settings, TREES)
    own = len(table.own)
    sides = [
        np.where(node.members, 2 * node.left - 1, 0)
        for node in nodes
        if node.column is not None and node.column >= own
    ]
    members = [TAU**node.tree * node.members for node in nodes if leaves == (node.column is None)]
    auc = table.evaluated(scores)["second"]
    seen = np.column_stack(sides).astype(float) if sides else np.empty((len(matrix), 0))
    return Seen(auc, seen, np.column_stack(members))


def _fate(table: TwoParties, seed: int) -> Seen:
    return _secureboost(table, seed, leaves=True)


def _secretflow(table: TwoParties, seed: int) -> Seen:
    return _secureboost(table, seed, leaves=False)


def _coin(table: TwoParties, seed: int) -> Seen:
    """Not a protocol: coin flips, of which nothing can be read."""
    random = np.random.default_rng(seed)
    return Seen(0.5, random.integers(2, size=(table.train, 5)), random.random((table.train, 5)))


#: How each discloses, by name.
PROTOCOLS: Mapping[str, Callable[[TwoParties, int], Seen]] = {
    "alone": _alone,
    "pooled": _pooled,
    "fate": _fate,
    "secretflow": _secretflow,
    "desensitised": _desensitised,
    "year": _year,
    "yearly": _yearly,
    "routed": _routed,
    "left": _left,
    "coin": _coin,
}

"""AHEAD (Du et al., CCS 2021), the rival for range queries of one dimension, by its own tree.

People are divided evenly at random into as many groups as a binary tree over the domain has levels.
Each group is asked once, with the whole epsilon, in which node of the present frontier its value
lies; every bit of the answer is randomised by the optimised unary encoding. A node is split for the
next group only where that can pay: where its frequency reaches theta, the standard deviation of a
node and its two children together. Anyone who analyses adapts the tree to what was answered, so
people must answer one group after the other; our releases need no such rounds.

Post-processing: frequencies of a level are made non-negative with their sum kept, a node that is
asked about by several groups has their mean, and a node is averaged with the sum of its children by
inverse variance. A range is answered by the largest nodes that lie in it, and by parts of leaves.

Held against the authors' own code (github.com/link-zju/ccs21-AHEAD): groups, theta, fan-out, means
over groups and how a range is answered are the same. Two steps differ, both for the better: their
Norm-Sub is one pass, which leaves negative shares, and is repeated here until there are none; their
weights add a node's own variance to its children's, and are here those of least variance.
"""

from dataclasses import dataclass, field
from uuid import UUID

import numpy as np
from scipy.stats import binom

from benchmarks.papers.ranges import Queries
from opboost_ops.mechanisms import UnaryEncoding, noise
from opboost_ops.mechanisms.randomised_response import BIT

#: Children of a node.
FANOUT = 2

_COLUMN = UUID("6f1d3a52-6f0e-4d0a-9f5e-0e7a3f1c9b14")


@dataclass(eq=False)
class _Node:
    """Values first..end - 1, how often they were found, and by how many groups."""

    first: int
    end: int
    found: float = 0.0
    groups: int = 0
    children: list["_Node"] = field(default_factory=list)
    variance: float = 0.0

    def halves(self) -> list["_Node"]:
        middle = (self.first + self.end) // 2
        return [_Node(self.first, middle), _Node(middle, self.end)]


@dataclass(frozen=True, eq=False)
class Tree:
    """What one run of the protocol has found.

    Attributes:
        root: All of the domain, its frequency 1.
        leaves: How many nodes have no children.
    """

    root: _Node
    leaves: int

    def answers(self, queries: Queries) -> np.ndarray:
        """Shares of all people by range, float64, shape (queries,)."""
        found = np.zeros(len(queries.first))
        _answer(self.root, queries, np.ones(len(found), dtype=bool), found)
        return found


def grown(values: np.ndarray, size: int, epsilon: float, secret: bytes) -> Tree:
    """One run of the protocol.

    Args:
        values: Positions in the domain from 0, int64, shape (n,).
        size: |D|, at least 2.
        epsilon: Of each person's one answer: its loss between any two values.
        secret: 32 bytes; the same one gives the same run.
    """
    levels = (size - 1).bit_length()
    group = (_uniform(secret, b"group", len(values)) * levels).astype(np.int64)
    counts = np.zeros((levels, size), dtype=np.int64)
    np.add.at(counts, (group, values), 1)
    (_, rises), (_, stays) = UnaryEncoding(epsilon=epsilon).channel(BIT).probabilities()
    root = _Node(0, size, found=1.0, groups=1)
    frontier = root.children = root.halves()
    for level in range(levels):
        people = int(counts[level].sum())
        if people == 0:
            continue
        upto = np.concatenate([[0], np.cumsum(counts[level])])
        inside = np.array([upto[node.end] - upto[node.first] for node in frontier])
        uniform = _uniform(secret, b"bits %d" % level, 2 * len(frontier)).reshape(2, -1)
        ones = binom.ppf(uniform[0], inside, stays) + binom.ppf(uniform[1], people - inside, rises)
        shares = _kept_above_zero((ones / people - rises) / (stays - rises))
        variance = rises * (1 - rises) / people / (stays - rises) ** 2
        asked, frontier = frontier, []
        for node, share in zip(asked, shares, strict=True):
            node.groups += 1
            node.found += (float(share) - node.found) / node.groups
            node.variance = variance / node.groups
            pays = share**2 >= (FANOUT + 1) * variance and node.groups == 1
            if pays and level < levels - 1 and node.end - node.first > 1:
                node.children = node.halves()
            frontier += node.children or [node]
    _upwards(root)
    return Tree(root, len(frontier))


def _kept_above_zero(shares: np.ndarray) -> np.ndarray:
    """The nearest shares that are not negative and sum up to 1."""
    low, high = float(shares.min()) - 1.0, float(shares.max())
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(shares - middle, 0).sum() > 1 else (low, middle)
    kept = np.maximum(shares - (low + high) / 2, 0)
    return np.asarray(kept / kept.sum())


def _upwards(node: _Node) -> None:
    for child in node.children:
        _upwards(child)
    if not node.children or node.variance == 0:
        return
    below = sum(child.variance for child in node.children)
    weight = below / (node.variance + below)
    node.found = weight * node.found + (1 - weight) * sum(c.found for c in node.children)
    node.variance = node.variance * below / (node.variance + below)


def _answer(node: _Node, queries: Queries, open_: np.ndarray, found: np.ndarray) -> None:
    if not node.children:
        first = np.maximum(queries.first, node.first)
        inside = np.clip(np.minimum(queries.last + 1, node.end) - first, 0, None)
        found += open_ * inside * (node.found / (node.end - node.first))
        return
    whole = open_ & (queries.first <= node.first) & (queries.last >= node.end - 1)
    found += whole * node.found
    for child in node.children:
        _answer(child, queries, open_ & ~whole, found)


def _uniform(secret: bytes, purpose: bytes, count: int) -> np.ndarray:
    words = noise.Words.seeded(secret, purpose.decode()).take(count)
    return np.asarray(((words >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53)

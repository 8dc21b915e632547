"""Of two siblings one is asked for: the other's sums are the parent's without it.

Integers are subtracted, so nothing is lost. It is done where sums are exact alone. Noise would add
up: a sibling that is derived has the noise of two sums, and spares no privacy, because a row that
is in the one asked for at every level changes as many sums as before.
"""

from collections.abc import Sequence

import numpy as np

from opboost_ops.exchange.rounds.protocol import Round, Rounds
from opboost_ops.learning.federboost.histogram import Tree

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

    def ask(self, name: Round, asked: list[list[int]], opened: list[list[int]]) -> None:
        """Note the next level.

        Args:
            name: Its round.
            asked: By tree, the nodes that are asked for.
            opened: By tree, all open nodes.
        """
        self._asked.append((name, asked, opened))

    def whole(self, sums: np.ndarray, trees: Sequence[Tree]) -> list[np.ndarray]:
        """By tree, the sums of all open nodes of the last level, flat.

        Args:
            sums: Of the nodes that were asked for.
            trees: Before that level's splits; none at the first level.
        """
        level = len(self._asked) - 1
        known = self._complete(level, sums, trees)
        opened = self._asked[level][2]
        none = np.zeros(0, dtype=np.int64)
        return [
            np.concatenate([of[node] for node in nodes]) if nodes else none
            for of, nodes in zip(known, opened, strict=True)
        ]

    def _complete(self, level: int, sums: np.ndarray, trees: Sequence[Tree]) -> list[Sums]:
        _, asked, opened = self._asked[level]
        rows = iter(sums.reshape(sum(map(len, asked)), -1))
        found: list[Sums] = [{node: next(rows) for node in nodes} for nodes in asked]
        if any(set(a) != set(o) for a, o in zip(asked, opened, strict=True)):
            if level - 1 not in self._known:
                before = self._rounds.total(self._asked[level - 1][0])
                self._complete(level - 1, before, trees)
            for at, tree in enumerate(trees):
                parents = {c: node for node, (_, *both) in tree.splits.items() for c in both}
                for node in set(opened[at]) - set(found[at]):
                    parent = self._known[level - 1][at][parents[node]]
                    found[at][node] = parent - found[at][sibling_of(node)]
        self._known[level] = found
        return found

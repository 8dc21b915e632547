"""From points to the common rows: what a feature holder lays out, and what the label holder finds.

With one feature holder it lays out the sorted tags of its people, and the answer is positions in
them. With two or more each lays out a table of masked zero shares (`zero_shares`), which gives
away nobody who is not common to all; the answer is look-up tags, which the holder finds at home.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opboost_ops.alignment import zero_shares
from opboost_ops.alignment.tags import positions_in, sorting, tags


@dataclass(frozen=True)
class Layout:
    """What a feature holder lays out for the label holder.

    Attributes:
        content: Sorted tags, or the slots of a table, uint8, shape (k, 16).
        number: Of the hash that a table was built with; 0 for tags.
    """

    content: np.ndarray
    number: int = 0


def layout_size(holders: int, rows: int) -> int:
    """How many entries of 16 bytes a layout has; the canary is one more person.

    Args:
        holders: Feature holders of the federation.
        rows: Of this one's table.
    """
    return rows + 1 if holders == 1 else zero_shares.slots_for(rows + 1)


def sorted_tags(points: np.ndarray, messages: Sequence[bytes]) -> tuple[Layout, np.ndarray]:
    """The layout of a federation's only feature holder.

    Args:
        points: b H(y) of all messages, uint8, shape (n, 32).
        messages: The canary is the last.

    Returns:
        It, and the row of each of its entries, int64, shape (n,).
    """
    found = tags("tag", points, messages)
    rows = sorting(found)
    return Layout(found[rows]), rows


def masked_shares(
    points: np.ndarray, messages: Sequence[bytes], seed: bytes, pairs: Mapping[str, bytes]
) -> tuple[Layout, np.ndarray]:
    """The layout of one of several feature holders.

    Args:
        points: b H(y) of all messages, uint8, shape (n, 32).
        messages: The canary is the last.
        seed: The holder's of the session.
        pairs: Its key with each other holder.

    Returns:
        It, and the look-up tag of each row, uint8, shape (n - 1, 16).
    """
    values = zero_shares.shares(pairs, messages) ^ tags("mask", points, messages)
    content, number = zero_shares.encode(seed, tags("tag", points, messages), values)
    return Layout(content, number), tags("look", points[:-1], messages[:-1])


class OneHolder:
    """The label holder's view of its only feature holder.

    Args:
        messages: In the query's order, the canary among them.
        canary: Where that is.
    """

    def __init__(self, messages: Sequence[bytes], canary: int) -> None:
        self._messages = messages
        self._canary = canary
        self._positions = np.empty(0, dtype=np.int64)

    def add(self, _holder: str, points: np.ndarray, layout: Layout) -> None:
        """Look for what was asked about.

        Args:
            points: b H(x) in the query's order, uint8, shape (n, 32).
            layout: The holder's.
        """
        self._positions = positions_in(layout.content, tags("tag", points, self._messages))

    @property
    def agrees(self) -> bool:
        """Whether the canary was found: keys and versions agree."""
        return bool(self._positions[self._canary] >= 0)

    def common(self) -> np.ndarray:
        """Where in the query the common people are, int64, shape (c,)."""
        found = np.flatnonzero(self._positions >= 0)
        return np.asarray(found[found != self._canary])

    def answer(self, _holder: str, common: np.ndarray) -> np.ndarray:
        """Positions in the holder's list, int64, shape (c,), in the order of ``common``."""
        return np.asarray(self._positions[common])


class ManyHolders:
    """The label holder's view of two or more feature holders.

    Args:
        messages: In the query's order, the canary among them.
        canary: Where that is.
    """

    def __init__(self, messages: Sequence[bytes], canary: int) -> None:
        self._messages = messages
        self._canary = canary
        self._total = np.zeros((len(messages), 16), dtype=np.uint8)
        self._points: dict[str, np.ndarray] = {}

    def add(self, holder: str, points: np.ndarray, layout: Layout) -> None:
        """Add a holder's shares.

        Args:
            holder: Which.
            points: b H(x) in the query's order, uint8, shape (n, 32).
            layout: The holder's.
        """
        keys = tags("tag", points, self._messages)
        self._total ^= zero_shares.decode(layout.content, layout.number, keys)
        self._total ^= tags("mask", points, self._messages)
        self._points[holder] = points

    @property
    def agrees(self) -> bool:
        """Whether the canary is common to all: keys and versions agree."""
        return not self._total[self._canary].any()

    def common(self) -> np.ndarray:
        """Where in the query the common people are, int64, shape (c,)."""
        found = np.flatnonzero(~self._total.any(axis=1))
        return np.asarray(found[found != self._canary])

    def answer(self, holder: str, common: np.ndarray) -> np.ndarray:
        """Look-up tags for a holder, uint8, shape (c, 16), in the order of ``common``."""
        messages = [self._messages[i] for i in common]
        return tags("look", self._points[holder][common], messages)

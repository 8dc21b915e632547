"""A masked vector's bytes: each integer in as few as the bound of its sum takes.

Masks and sums are modulo 2^64. The low bytes of a masked integer are it modulo 2^(8 w), and so is
what the parties' low bytes add up to: where the sum's bound fits into w bytes, the others tell
nothing. The bounds are public, so the length of a vector tells nothing either.
"""

from collections.abc import Sequence

import numpy as np

#: Bytes of a word, and up to where it holds a sum with its sign.
_WORD, _LIMIT = 8, 1 << 63


class Packing:
    """How the integers of one round's vectors lie in bytes.

    Args:
        size: How many integers.
        bounds: Of the absolute sums of all parties, for integers in turn; whole words without any.
    """

    def __init__(self, size: int, bounds: Sequence[int] = ()) -> None:
        self.size = size
        self._bounds = np.array(bounds, dtype=np.int64) if bounds else None
        self._widths = [width_of(bound) for bound in bounds] or [_WORD]
        if size % len(self._widths):
            raise ValueError(f"{size} integers are not of {len(self._widths)} in turn")

    @property
    def length(self) -> int:
        """Bytes of a vector."""
        return self.size // len(self._widths) * sum(self._widths)

    def fits(self, vector: np.ndarray, parties: int) -> bool:
        """Whether a party's integers are such that the sums are within their bounds.

        Args:
            vector: int64, shape (size,).
            parties: How many add up.
        """
        if self._bounds is None:
            return int(np.abs(vector).max(initial=0)) * parties < _LIMIT
        return bool((np.abs(vector.reshape(-1, len(self._bounds))) <= self._bounds).all())

    def packed(self, words: np.ndarray) -> bytes:
        """A masked vector's bytes.

        Args:
            words: uint64, shape (size,).
        """
        table = words.astype("<u8", copy=False).view(np.uint8)
        table = table.reshape(-1, len(self._widths), _WORD)
        parts = [table[:, i, :width] for i, width in enumerate(self._widths)]
        return np.concatenate(parts, axis=1).tobytes()

    def unpacked(self, raw: bytes) -> np.ndarray:
        """A masked vector, modulo what its integers' bytes hold; uint64, shape (size,).

        Args:
            raw: As `packed` gives it.
        """
        rows = np.frombuffer(raw, dtype=np.uint8).reshape(-1, sum(self._widths))
        table = np.zeros((len(rows), len(self._widths), _WORD), dtype=np.uint8)
        ends = np.cumsum(self._widths)
        for i, (end, width) in enumerate(zip(ends, self._widths, strict=True)):
            table[:, i, :width] = rows[:, end - width : end]
        return table.reshape(-1).view("<u8").astype(np.uint64, copy=False)

    def summed(self, total: np.ndarray) -> np.ndarray:
        """A sum whose masks are gone, with its sign.

        Args:
            total: Of what `unpacked` gives, modulo 2^64; int64, shape (size,).
        """
        unused = np.array([8 * (_WORD - width) for width in self._widths], dtype=np.int64)
        table = total.reshape(-1, len(self._widths))
        return ((table << unused) >> unused).ravel()


def width_of(bound: int) -> int:
    """Bytes that hold every integer up to a bound, with its sign.

    Args:
        bound: Below 2^63.
    """
    return -(-(bound.bit_length() + 1) // 8)

"""Training rows cut into parts, in a way that follows from a public seed."""

import hashlib

import numpy as np


def folds(label: np.ndarray, count: int, seed: int, what: str) -> np.ndarray:
    """Which part each row is in; parts are of like size, and like in their labels.

    Args:
        label: Numbers or class indices, shape (n,).
        count: How many parts.
        seed: Nothing private hangs on it.
        what: What the parts are for: another purpose cuts otherwise.

    Returns:
        Numbers from 0, shape (n,).
    """
    place = np.empty(len(label), dtype=np.int64)
    place[_order(label, seed, what)] = np.arange(len(label)) % count
    return place


#: Share of the training rows that early stopping judges by.
HELD_BACK = 0.1


def held_back(label: np.ndarray, share: float, seed: int, what: str) -> np.ndarray:
    """Whether each row is in a part of a given size, like the rest in its labels.

    Args:
        label: Numbers or class indices, shape (n,).
        share: Of all rows.
        seed: Nothing private hangs on it.
        what: What the part is for.

    Returns:
        Booleans, shape (n,); at least one row is in it and one is not, where there are two.
    """
    steps = np.floor(np.arange(len(label) + 1) * share)
    inside = np.empty(len(label), dtype=bool)
    inside[_order(label, seed, what)] = np.diff(steps) > 0
    if len(label) > 1 and not inside.any():
        inside[_order(label, seed, what)[-1]] = True
    return inside


def _order(label: np.ndarray, seed: int, what: str) -> np.ndarray:
    drawn = hashlib.shake_256(f"{what} {seed}".encode()).digest(8 * len(label))
    return np.lexsort((np.frombuffer(drawn, dtype="<u8"), label))

"""Shares of the values behind released ones, estimated through the known channel."""

import numpy as np

#: Steps of the estimate; it moves little after some tens.
_STEPS = 200


def counted(codes: np.ndarray, size: int, groups: np.ndarray, count: int) -> np.ndarray:
    """How often each code is in each group, float64, shape (size, count).

    Args:
        codes: From 0, shape (n,).
        size: How many codes there are.
        groups: From 0, shape (n,).
        count: How many groups there are.
    """
    found = np.bincount(codes * count + groups, minlength=size * count)
    return found.reshape(size, count).astype(float)


def shares(counts: np.ndarray, law: np.ndarray) -> np.ndarray:
    """The likeliest shares of the values behind released ones, by expectation maximisation.

    Args:
        counts: How often each output was released, shape (m,), or (m, groups) for each group.
        law: Pr[output | value], shape (k, m).

    Returns:
        Shares, float64, shape (k,) or (k, groups); even ones of a group without rows.
    """
    total = counts.sum(axis=0)
    seen = np.where(total > 0, counts, law.mean(axis=0).reshape(-1, *[1] * (counts.ndim - 1)))
    seen = seen / seen.sum(axis=0)
    found = np.full((len(law), *counts.shape[1:]), 1 / len(law))
    for _ in range(_STEPS):
        found = found * (law @ (seen / (law.T @ found)))
    return found

"""The share of a column's variance that its released values keep."""

import math

import numpy as np

from opboost_ops.domain import Domain, DomainMap
from opboost_ops.mechanisms import Mechanism


def kept(
    values: np.ndarray,
    mapping: DomainMap,
    mechanism: Mechanism,
    domain: Domain,
    told: np.ndarray | None = None,
) -> tuple[float, float]:
    """Share of raw values' variance that the best guess explains, and that guess's typical error.

    Args:
        values: Raw values inside the bounds, shape (n,).
        mapping: How they lie on the domain.
        mechanism: What releases them.
        domain: Theirs.
        told: What is guessed of each row, shape (n,); the raw values when absent.
    """
    told = values if told is None else told
    codes = mapping.encode(values) - domain.lower
    rows = np.bincount(codes, minlength=domain.size) / len(values)
    sums = np.bincount(codes, told - told.mean(), minlength=domain.size) / len(values)
    law = mechanism.channel(domain).probabilities()
    likely = rows @ law
    used = likely > 0
    explained = float(((sums @ law)[used] ** 2 / likely[used]).sum())
    whole = float(told.var())
    return (explained / whole if whole else 1.0), math.sqrt(max(whole - explained, 0.0))

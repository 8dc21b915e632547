"""How many bits of a secret people's observations tell: adjusted mutual information.

Bits per person are the adjusted mutual information (Vinh et al. 2010) of a secret S, one per
person, and of all that the attacker observes of that person, O, times the entropy of S:

    H(S) max(0, I(S; O) - E) / (H(S) - E)

with the plug-in I, and E its mean over 400 random assignments of observations to people. They are 0
where 4 or more of these assignments have at least as large an I.
"""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np


def bits(secrets: Sequence[Hashable], seen: Sequence[Hashable]) -> float:
    """Adjusted mutual information of a secret and what is seen, times the secret's entropy.

    Args:
        secrets: One a person.
        seen: What the attacker observes of each person, in the same order.
    """
    s, o = _numbers(secrets), _numbers(seen)
    entropy = _entropy(s)
    information = entropy + _entropy(o) - _entropy(s * (o.max() + 1) + o)
    random = np.random.default_rng(0)
    chance = []
    for _ in range(400):
        mixed = random.permutation(o)
        chance.append(entropy + _entropy(o) - _entropy(s * (o.max() + 1) + mixed))
    expected = float(np.mean(chance))
    if sum(one >= information - 1e-9 for one in chance) >= 4 or entropy - expected < 1e-9:
        return 0.0
    return round(max(0.0, entropy * (information - expected) / (entropy - expected)), 3)


def reading(pairs: Sequence[tuple[Hashable, Hashable]]) -> dict[str, Any]:
    """What is read of people, from pairs of a secret and what is seen.

    Where nothing but the first night, which asks about more people, looks different, nothing is
    read, however few the people are.
    """
    secrets, seen = zip(*pairs, strict=True)
    return {"now": bits(secrets, seen), "people": len(pairs), "different": len(set(seen))}


def _numbers(values: Sequence[Hashable]) -> np.ndarray:
    names = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return np.array([names[value] for value in values], dtype=np.int64)


def _entropy(codes: np.ndarray) -> float:
    counts = np.unique(codes, return_counts=True)[1] / len(codes)
    return float(-(counts * np.log2(counts)).sum())

"""Masks that come off over who remains; and what would, if no list were attested."""

import numpy as np
import pytest

from benchmarks.papers.horizontal_audit import masks_of
from opboost_ops.aggregation import shamir

ROUND = "trees-00000-00"


def opened(doubles, views):
    """What each party opens that has seen the list in `views`, by party."""
    return {
        party: doubles[party].opened(ROUND, list(doubles), seen) for party, seen in views.items()
    }


@pytest.mark.parametrize(("count", "remain", "gone"), [(4, 3, 1), (8, 6, 2), (5, 4, 0)])
def test_the_sum_of_who_remains_comes_off_to_the_bit(count, remain, gone):
    names = [f"p{i}" for i in range(count)]
    doubles = masks_of(names, [ROUND], remain)
    vectors = {p: np.array([-(10**i), 1 << i]) for i, p in enumerate(names)}
    masked = {p: doubles[p].mask(ROUND, v, names) for p, v in vectors.items()}
    present = [p for i, p in enumerate(names) if not 1 <= i <= gone]
    shares = opened(doubles, dict.fromkeys(present[:remain], present))
    came = {p: masked[p] for p in present}
    total = doubles["p0"].total(ROUND, came, names, shares)
    assert total.tolist() == sum(vectors[p] for p in present).tolist()


def test_lists_that_differ_would_leave_less_noise_than_is_counted():
    """n = 8, t = 5, kappa = 1, so that 2 t > n + kappa: nobody has both secrets of a party opened,
    every party sees a list of five with itself, and yet a sum of three honest parties comes off,
    where noise is counted for t - kappa = 4. Attesting one list before opening prevents it."""
    names = [f"p{i}" for i in range(8)]
    doubles = masks_of(names, [ROUND], 5)
    kept, left = names[1:4], names[4:]
    views = {party: {"p0", *kept, other} for party, other in zip(kept, left, strict=False)}
    views |= {party: {"p0", *kept, party} for party in left}
    assert all(len(seen) == 5 and party in seen for party, seen in views.items())
    shares = opened(doubles, views)
    colluding = {kind: doubles["p0"].opened(ROUND, names, seen)
                 for kind, seen in (("own", names), ("pair", ["p0"]))}  # fmt: skip

    def secret(victim, kind):
        """From those that were told so, and the coalition's own share; None if they are too few."""
        told = {p for p, seen in views.items() if (victim in seen) == (kind == "own")}
        found = {names.index(p) + 1: shares[p][victim] for p in told}
        found[1] = colluding[kind][victim]
        return shamir.joined(found) if len(found) >= 5 else None

    own = {p: secret(p, "own") for p in names[1:]}
    pair = {p: secret(p, "pair") for p in names[1:]}
    assert not [p for p in names[1:] if own[p] is not None and pair[p] is not None]
    assert [p for p in names[1:] if own[p] is not None] == kept
    assert [p for p in names[1:] if pair[p] is not None] == left
    vectors = {p: np.array([10**i]) for i, p in enumerate(names)}
    masked = {p: doubles[p].mask(ROUND, v, names) for p, v in vectors.items()}
    # What the active party does with five parties' consistent shares, it does with these.
    doubles["p0"]._secret = lambda _, victim, present, __: (own if present else pair)[victim]
    came = {p: masked[p] for p in ("p0", *kept)}
    assert doubles["p0"].total(ROUND, came, names, {}).tolist() == [1 + 10 + 100 + 1000]

"""Mechanisms as channels: exact integer counts of their outputs, and their loss curves.

A count out of 2^64 is the probability of an output. Each of the n possible outputs of an input
has the count 4096 + round((2^64 - 4096 n) p), and the most likely output takes the remainder. The
clamped geometric mechanism instead rounds down and gives the remainder to the largest fractions.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from opboost_ops.verifier.outcomes import NotCheckableError

TOTAL = 2**64
FLOOR = 4096

#: Pairs with a difference of logarithms this close to the largest are compared exactly.
_MARGIN = 1e-9

_EXACT = Context(prec=80, rounding=ROUND_HALF_EVEN)

Counts = list[list[int]]


class _Parameters(NamedTuple):
    """Parameters of a channel; inputs and starts of partitions count from 0 within the domain."""

    mechanism: Mapping[str, Any]
    epsilon: Decimal
    starts: list[int]
    size: int


def output_counts(mechanism: Mapping[str, Any], lower: int, upper: int) -> tuple[list[int], Counts]:
    """The outputs of a mechanism in docs/choosing.md, and their counts for each input."""
    name, size, outputs = mechanism["name"], upper - lower + 1, list(range(lower, upper + 1))
    if name == "designed":
        table = mechanism.get("table")
        if not isinstance(table, Mapping) or (table["lower"], table["upper"]) != (lower, upper):
            raise NotCheckableError("the table of a designed channel, for this domain")
        return list(table["outputs"]), [list(map(int, row)) for row in table["counts"]]
    weights = _MECHANISMS.get(name, ("", None))[1]
    if weights is None:
        raise NotCheckableError(f"the mechanism {name}")
    starts = _partition_starts(mechanism, lower, size)
    if name == "bucket_response":
        outputs = [lower + (a + b - 1) // 2 for a, b in pairwise([*starts, size])]
    rounded = _round_by_largest_remainder if name == "geometric" else _round_to_counts
    with localcontext(_EXACT):
        parameters = _Parameters(mechanism, Decimal(float(mechanism["epsilon"])), starts, size)
        return outputs, [rounded(weights(parameters, x)) for x in range(size)]


def _partition_starts(mechanism: Mapping[str, Any], lower: int, size: int) -> list[int]:
    """The first position of each partition of a mechanism, counted from 0 within the domain."""
    if mechanism["name"] in ("global_map", "grr"):
        return [0] if mechanism["name"] == "global_map" else list(range(size))
    if mechanism.get("edges"):
        return [0, *(edge - lower for edge in mechanism["edges"])]
    if mechanism["name"] == "bucket_response":
        count = mechanism.get("buckets") or 16
        return [-(-bucket * size // count) for bucket in range(count)]
    return list(range(0, size, mechanism.get("theta") or size))


def span(mechanism: Mapping[str, Any], lower: int, upper: int, value: int) -> tuple[int, int]:
    """The least and greatest domain value that a released value represents, as of a bucket."""
    if mechanism["name"] == "bucket_response":
        starts = _partition_starts(mechanism, lower, upper - lower + 1)
        at = bisect_right(starts, value - lower) - 1
        return lower + starts[at], lower + [*starts[1:], upper - lower + 1][at] - 1
    if mechanism["name"] == "designed":
        outputs = mechanism["table"]["outputs"]
        at, ends = outputs.index(value), [(a + b) // 2 for a, b in pairwise(outputs)]
        return [lower, *(end + 1 for end in ends)][at], [*ends, upper][at]
    return value, value


def category_counts(mechanism: Mapping[str, Any]) -> Counts:
    """Counts of a category's bit under unary encoding."""
    if mechanism["name"] != "unary":
        raise NotCheckableError("a nominal feature's mechanism other than unary encoding")
    return [*missing_bit_counts(float(mechanism["epsilon"]))[:1], [TOTAL // 2, TOTAL // 2]]


def missing_bit_counts(epsilon: float) -> Counts:
    """Counts of a randomised bit that indicates a missing value."""
    with localcontext(_EXACT):
        stay = Decimal(epsilon).exp()
        return [_round_to_counts([stay, Decimal(1)]), _round_to_counts([Decimal(1), stay])]


def category_ratio(bits: Counts) -> Fraction:
    """The worst ratio between two categories, whose encodings differ in two bits."""
    clear, set_ = bits
    pairs = list(zip(clear, set_, strict=True))
    return max(Fraction(b, a) for a, b in pairs) * max(Fraction(a, b) for a, b in pairs)


def worst_ratios(counts: Counts) -> list[Fraction | None]:
    """For t = 1 .. |D| - 1, the largest ratio of inputs at most t apart; None if infinite."""
    # A count of 2^64 does not fit; such an output is impossible for all other inputs.
    table = np.minimum(np.array(counts, dtype=object), TOTAL - 1).astype(np.uint64)
    logs = np.log(np.maximum(table, 1).astype(np.float64))
    ratios: list[Fraction | None] = []
    worst: Fraction | None = Fraction(1)
    for t in range(1, len(counts)):
        above, below = table[t:], table[:-t]
        if worst is None or ((above > 0) != (below > 0)).any():
            worst = None
        else:
            difference = np.abs(logs[t:] - logs[:-t])
            before = math.log(worst.numerator) - math.log(worst.denominator)
            near = difference >= max(float(difference.max()), before) - _MARGIN
            pairs = np.unique(np.stack([above[near], below[near]], axis=1), axis=0).tolist()
            worst = max([worst, *(Fraction(max(pair), min(pair)) for pair in pairs if all(pair))])
        ratios.append(worst)
    return ratios


def loss_curve_fault(
    curve: Mapping[str, Any], ratios: Sequence[Fraction | None], epsilon: float, label: str
) -> str:
    """The problem with a loss curve in a manifest, given its channel; empty if there is none."""
    if curve["epsilon"] != epsilon:
        return "states another epsilon"
    if not str(curve["mechanism"]).startswith(label):
        return "names another mechanism"
    losses = curve["loss"]
    if len(losses) != len(ratios):
        return "has a length that does not fit the domain"
    certificate = True
    for t, (loss, ratio) in enumerate(zip(losses, ratios, strict=True), start=1):
        if ratio is None or loss == "inf":
            certificate = False
            if (ratio is None) != (loss == "inf"):
                return f"is wrong at distance {t}"
            continue
        exact = _log_rounded_up(ratio)
        above = float(exact)
        highest = math.nextafter(math.nextafter(above, math.inf), math.inf)
        if not (Decimal(loss) >= exact - Decimal("1e-38") and loss <= highest):
            return f"is wrong at distance {t}"
        certificate = certificate and exact <= t * Decimal(epsilon)
    return "" if curve["certificate"] == certificate else "has a wrong certificate"


def mechanism_label(mechanism: Mapping[str, Any]) -> str:
    """The name of a mechanism in manifests, without its partitions."""
    if mechanism["name"] not in _MECHANISMS:
        raise NotCheckableError(f"the mechanism {mechanism['name']}")
    return f"{_MECHANISMS[mechanism['name']][0]}, epsilon {float(mechanism['epsilon']):g}"


@lru_cache(maxsize=8)
def _decay(epsilon: Decimal, longest: int) -> list[Decimal]:
    return [(-epsilon / 2 * distance).exp() for distance in range(longest + 1)]


def _round_to_counts(weights: Sequence[Decimal]) -> list[int]:
    support = [i for i, weight in enumerate(weights) if weight > 0]
    whole = sum((weights[i] for i in support), Decimal(0))
    spread = TOTAL - FLOOR * len(support)
    counts = [0] * len(weights)
    for i in support:
        counts[i] = FLOOR + int((spread * weights[i] / whole).to_integral_value())
    counts[max(support, key=lambda i: counts[i])] += TOTAL - sum(counts)
    return counts


def _round_by_largest_remainder(shares: Sequence[Decimal]) -> list[int]:
    size = len(shares)
    exact = [(TOTAL - FLOOR * size) * share for share in shares]
    counts = [int(value) for value in exact]
    rest = [value - count for value, count in zip(exact, counts, strict=True)]
    order = sorted(range(size), key=lambda y: (rest[y], shares[y]), reverse=True)
    for y in order[: TOTAL - FLOOR * size - sum(counts)]:
        counts[y] += 1
    return [FLOOR + count for count in counts]


def _map_weights(spec: _Parameters, x: int) -> list[Decimal]:
    """Weights that decay with the distance within the input's partition, and are 0 elsewhere."""
    decay, home = _decay(spec.epsilon, spec.size), bisect_right(spec.starts, x)
    inside = range(spec.starts[home - 1], [*spec.starts, spec.size][home])
    return [decay[abs(x - y)] if y in inside else Decimal(0) for y in range(spec.size)]


def _adjusted_map_weights(spec: _Parameters, x: int) -> list[Decimal]:
    """Weights that decay with the distance of partitions, then of values within a partition."""
    partitions = list(pairwise([*spec.starts, spec.size]))
    length = Decimal(spec.mechanism.get("theta") or max(b - a for a, b in partitions))
    alpha = Decimal(float(spec.mechanism.get("alpha", 1.0)))
    inner, home = spec.epsilon / (alpha + length / spec.size), bisect_right(spec.starts, x) - 1
    by_value, by_partition = _decay(inner, spec.size), _decay(alpha * length * inner, spec.size)
    between = [by_partition[abs(m - home)] for m in range(len(partitions))]
    whole = sum(between, Decimal(0))
    weights: list[Decimal] = []
    for weight, (begin, end) in zip(between, partitions, strict=True):
        inside = [by_value[abs(x - y)] for y in range(begin, end)]
        share = weight / whole / sum(inside, Decimal(0))
        weights += [share * each for each in inside]
    return weights


def _geometric_weights(spec: _Parameters, x: int) -> list[Decimal]:
    ratio = (-spec.epsilon).exp()
    ends = [ratio ** abs(x - y) / (1 + ratio) for y in range(spec.size)]
    inner = [(1 - ratio) * end for end in ends[1:-1]]
    return [ends[0], *inner, *ends[1:][-1:]]


def _piecewise_weights(spec: _Parameters, x: int) -> list[Decimal]:
    if spec.epsilon >= 200:
        # From here on, all outputs but the input itself have the least count.
        return [Decimal(1) if x == y else Decimal("1e-40") for y in range(spec.size)]
    root, steps = (spec.epsilon / 2).exp(), Decimal(spec.size - 1)
    reach, low = (root + 1) / (root - 1), 1 / (root * root)
    middle = [2 * (Decimal(i) - Decimal("0.5")) / steps - 1 for i in range(1, spec.size)]
    left = (reach + 1) / 2 * (2 * Decimal(x) / steps - 1) - (reach - 1) / 2
    weights = []
    for a, b in pairwise([-reach, *middle, reach]):
        high = max(Decimal(0), min(b, left + reach - 1) - max(a, left))
        weights.append(high + low * (b - a - high))
    return weights


def _response_weights(spec: _Parameters, x: int) -> list[Decimal]:
    own, stay = bisect_right(spec.starts, x) - 1, spec.epsilon.exp()
    return [stay if bucket == own else Decimal(1) for bucket in range(len(spec.starts))]


#: Each mechanism's name in manifests, and the function of its weights, if they are computed.
_MECHANISMS: Mapping[str, tuple[str, Callable[[_Parameters, int], list[Decimal]] | None]] = {
    "global_map": ("Global-map", _map_weights),
    "local_map": ("Local-map", _map_weights),
    "adj_map": ("Adj-map", _adjusted_map_weights),
    "geometric": ("Clamped geometric", _geometric_weights),
    "piecewise": ("Piecewise", _piecewise_weights),
    "grr": ("Generalised randomised response", _response_weights),
    "bucket_response": ("Bucketed randomised response", _response_weights),
    "designed": ("Designed", None),
    "unary": ("Unary encoding (optimised)", None),
}


def _log_rounded_up(ratio: Fraction) -> Decimal:
    with localcontext(Context(prec=60)) as context:
        value = (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln(context)
        return value.next_plus(context)

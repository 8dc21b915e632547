"""Mechanisms built again: their exact integer counts, and the loss curves that follow from them.

Counts are out of 2^64. Of the n outputs that an input can give, each has
4096 + round((2^64 - 4096 n) p), and the likeliest one takes the remainder; the clamped geometric
mechanism rounds down and gives the remainder to the largest fractions instead.
"""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

TOTAL = 2**64
FLOOR = 4096

#: From this epsilon on, Piecewise gives an output other than its own the least count.
_CERTAIN = 200.0

#: Pairs whose difference of logarithms comes so near to the largest are compared as integers.
_MARGIN = 1e-9

Counts = list[list[int]]


class UnknownMechanismError(ValueError):
    """A mechanism that this verifier cannot build."""


def counts_of(mechanism: Mapping[str, Any], lower: int, upper: int) -> tuple[list[int], Counts]:
    """Outputs of a mechanism, and a row of counts for each input of the domain.

    Raises:
        UnknownMechanismError: The name is none of those in docs/choosing.md.
    """
    name = mechanism.get("name")
    size, values = upper - lower + 1, list(range(lower, upper + 1))
    with localcontext(Context(prec=80, rounding=ROUND_HALF_EVEN)):
        epsilon = Decimal(float(mechanism["epsilon"]))
        if name == "global_map":
            near = _decay(epsilon, size)
            return values, [_rounded([near[abs(x - y)] for y in range(size)]) for x in range(size)]
        if name in ("adj_map", "local_map"):
            return values, _partitioned(mechanism, epsilon, lower, size)
        if name == "geometric":
            return values, _geometric(epsilon, size)
        if name == "piecewise":
            return values, _piecewise(epsilon, size)
        if name == "grr":
            return values, _responses(epsilon, list(range(size)), size)
        if name == "bucket_response":
            starts = _buckets(mechanism, lower, size)
            ends = [*starts[1:], size]
            middles = [lower + a + (b - a - 1) // 2 for a, b in zip(starts, ends, strict=True)]
            return middles, _responses(epsilon, starts, size)
        if name == "designed" and isinstance(mechanism.get("table"), Mapping):
            table = mechanism["table"]
            if (table["lower"], table["upper"]) != (lower, upper):
                raise UnknownMechanismError("a designed table of another domain")
            return list(table["outputs"]), [list(map(int, row)) for row in table["counts"]]
    raise UnknownMechanismError(f"the mechanism {name}")


def span(mechanism: Mapping[str, Any], lower: int, upper: int, value: int) -> tuple[int, int]:
    """The domain values that a released value stands for: a bucket's, or its own."""
    if mechanism.get("name") == "bucket_response":
        starts = _buckets(mechanism, lower, upper - lower + 1)
        at = bisect_right(starts, value - lower) - 1
        return lower + starts[at], lower + [*starts[1:], upper - lower + 1][at] - 1
    if mechanism.get("name") == "designed":
        outputs = mechanism["table"]["outputs"]
        at, ends = outputs.index(value), [(a + b) // 2 for a, b in pairwise(outputs)]
        return [lower, *(end + 1 for end in ends)][at], [*ends, upper][at]
    return value, value


def category_counts(mechanism: Mapping[str, Any]) -> Counts:
    """Counts of a category's bit under unary encoding.

    Raises:
        UnknownMechanismError: It is another mechanism.
    """
    if mechanism.get("name") != "unary":
        raise UnknownMechanismError("a nominal feature without unary encoding")
    with localcontext(Context(prec=80, rounding=ROUND_HALF_EVEN)):
        unit, stay = Decimal(1), Decimal(float(mechanism["epsilon"])).exp()
        return [_rounded([stay, unit]), _rounded([unit, unit])]


def missing_bit_counts(epsilon: float) -> Counts:
    """Counts of a bit that says whether a value is missing."""
    with localcontext(Context(prec=80, rounding=ROUND_HALF_EVEN)):
        unit, stay = Decimal(1), Decimal(epsilon).exp()
        return [_rounded([stay, unit]), _rounded([unit, stay])]


def category_ratio(bits: Counts) -> Fraction:
    """Worst ratio between two categories: one bit is cleared and another one is set."""
    clear, set_ = bits
    pairs = list(zip(clear, set_, strict=True))
    return max(Fraction(b, a) for a, b in pairs) * max(Fraction(a, b) for a, b in pairs)


def worst_ratios(counts: Counts) -> list[Fraction | None]:
    """For t = 1 .. |D| - 1 the largest ratio of two inputs at most t apart; None if infinite."""
    size = len(counts)
    support = np.array([[count > 0 for count in row] for row in counts])
    finite = next((t for t in range(1, size) if (support[t:] != support[:-t]).any()), size)
    ratios: list[Fraction | None] = []
    worst = Fraction(1)
    if finite > 1:
        table = np.array(counts, dtype=np.uint64)
        logs = np.log(np.maximum(table, 1).astype(np.float64))
        for t in range(1, finite):
            difference = np.abs(logs[t:] - logs[:-t])
            least = max(float(difference.max()), _log(worst)) - _MARGIN
            near = difference >= least
            pairs = np.unique(np.stack([table[t:][near], table[:-t][near]], axis=1), axis=0)
            for a, b in pairs.tolist():
                if a and b:
                    worst = max(worst, Fraction(max(a, b), min(a, b)))
            ratios.append(worst)
    return ratios + [None] * (size - len(ratios) - 1)


def curve_fault(
    curve: Mapping[str, Any], ratios: Sequence[Fraction | None], epsilon: float, label: str
) -> str:
    """The problem with a printed loss curve; empty if there is none.

    Args:
        curve: As a manifest or a ledger states it.
        ratios: Of the channel that the plan declares, for t = 1, 2, ...
        epsilon: As declared.
        label: What the mechanism is called.
    """
    if curve["epsilon"] != epsilon:
        return "states another epsilon"
    if not str(curve["mechanism"]).startswith(label):
        return "names another mechanism"
    printed = curve["loss"]
    if len(printed) != len(ratios):
        return "has another length than the domain"
    certificate = True
    for t, (loss, ratio) in enumerate(zip(printed, ratios, strict=True), start=1):
        if ratio is None or loss == "inf":
            certificate = False
            if (ratio is None) != (loss == "inf"):
                return f"is wrong at distance {t}"
            continue
        exact = _log_up(ratio)
        above = float(exact)
        highest = math.nextafter(math.nextafter(above, math.inf), math.inf)
        if not (Decimal(loss) >= exact - Decimal("1e-38") and loss <= highest):
            return f"is wrong at distance {t}"
        certificate = certificate and exact <= t * Decimal(epsilon)
    return "" if curve["certificate"] == certificate else "has a wrong certificate"


def label_of(mechanism: Mapping[str, Any]) -> str:
    """The name of a mechanism as manifests print it, up to what is said of its partitions."""
    titles = {
        "global_map": "Global-map",
        "adj_map": "Adj-map",
        "local_map": "Local-map",
        "geometric": "Clamped geometric",
        "piecewise": "Piecewise",
        "grr": "Generalised randomised response",
        "bucket_response": "Bucketed randomised response",
        "designed": "Designed",
        "unary": "Unary encoding (optimised)",
    }
    return f"{titles.get(mechanism['name'], '')}, epsilon {float(mechanism['epsilon']):g}"


def _decay(epsilon: Decimal, longest: int) -> list[Decimal]:
    return [(-epsilon / 2 * distance).exp() for distance in range(longest + 1)]


def _rounded(weights: Sequence[Decimal]) -> list[int]:
    support = [i for i, weight in enumerate(weights) if weight > 0]
    whole = sum((weights[i] for i in support), Decimal(0))
    spread = TOTAL - FLOOR * len(support)
    counts = [0] * len(weights)
    for i in support:
        counts[i] = FLOOR + int((spread * weights[i] / whole).to_integral_value())
    counts[max(support, key=lambda i: counts[i])] += TOTAL - sum(counts)
    return counts


def _partitioned(mechanism: Mapping[str, Any], epsilon: Decimal, lower: int, size: int) -> Counts:
    theta, edges = mechanism.get("theta"), mechanism.get("edges")
    starts = list(range(0, size, theta)) if theta else [0, *(edge - lower for edge in edges or ())]
    ends = [*starts[1:], size]
    if mechanism["name"] == "local_map":
        near = _decay(epsilon, size)
        rows = []
        for x in range(size):
            home = bisect_right(starts, x) - 1
            inside = range(starts[home], ends[home])
            rows.append(
                _rounded([near[abs(x - y)] if y in inside else Decimal(0) for y in range(size)])
            )
        return rows
    length = Decimal(theta or max(b - a for a, b in zip(starts, ends, strict=True)))
    alpha = Decimal(float(mechanism.get("alpha", 1.0)))
    inner = epsilon / (alpha + length / size)
    by_value, by_partition = _decay(inner, size), _decay(alpha * length * inner, len(starts))
    rows = []
    for x in range(size):
        home = bisect_right(starts, x) - 1
        between = [by_partition[abs(m - home)] for m in range(len(starts))]
        whole = sum(between, Decimal(0))
        weights: list[Decimal] = []
        for weight, begin, end in zip(between, starts, ends, strict=True):
            inside_weights = [by_value[abs(x - y)] for y in range(begin, end)]
            share = weight / whole / sum(inside_weights, Decimal(0))
            weights += [share * each for each in inside_weights]
        rows.append(_rounded(weights))
    return rows


def _geometric(epsilon: Decimal, size: int) -> Counts:
    ratio = (-epsilon).exp()
    rows = []
    for x in range(size):
        shares = []
        for y in range(size):
            end = ratio ** abs(x - y) / (1 + ratio)
            shares.append(end if y in (0, size - 1) else (1 - ratio) * end)
        exact = [(TOTAL - FLOOR * size) * share for share in shares]
        counts = [int(value) for value in exact]
        rest = [value - count for value, count in zip(exact, counts, strict=True)]
        missing = TOTAL - FLOOR * size - sum(counts)
        order = sorted(range(size), key=lambda y: (rest[y], shares[y]), reverse=True)
        for y in order[:missing]:
            counts[y] += 1
        rows.append([FLOOR + count for count in counts])
    return rows


def _piecewise(epsilon: Decimal, size: int) -> Counts:
    if epsilon >= Decimal(_CERTAIN):
        own = TOTAL - FLOOR * (size - 1)
        return [[own if x == y else FLOOR for y in range(size)] for x in range(size)]
    root = (epsilon / 2).exp()
    reach, low, steps = (root + 1) / (root - 1), 1 / (root * root), Decimal(size - 1)
    middle = [2 * (Decimal(i) - Decimal("0.5")) / steps - 1 for i in range(1, size)]
    cuts = [-reach, *middle, reach]
    rows = []
    for x in range(size):
        value = 2 * Decimal(x) / steps - 1
        left = (reach + 1) / 2 * value - (reach - 1) / 2
        right = left + reach - 1
        weights = []
        for a, b in pairwise(cuts):
            high = max(Decimal(0), min(b, right) - max(a, left))
            weights.append(high + low * (b - a - high))
        rows.append(_rounded(weights))
    return rows


def _buckets(mechanism: Mapping[str, Any], lower: int, size: int) -> list[int]:
    if mechanism.get("edges"):
        return [0, *(edge - lower for edge in mechanism["edges"])]
    count = mechanism.get("buckets") or 16
    return [-(-bucket * size // count) for bucket in range(count)]


def _responses(epsilon: Decimal, starts: list[int], size: int) -> Counts:
    stay, count = epsilon.exp(), len(starts)
    rows = [
        _rounded([stay if bucket == own else Decimal(1) for bucket in range(count)])
        for own in range(count)
    ]
    return [rows[bisect_right(starts, x) - 1] for x in range(size)]


def _log(ratio: Fraction) -> float:
    return math.log(ratio.numerator) - math.log(ratio.denominator)


def _log_up(ratio: Fraction) -> Decimal:
    with localcontext(Context(prec=60)) as context:
        value = (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln(context)
        return value.next_plus(context)

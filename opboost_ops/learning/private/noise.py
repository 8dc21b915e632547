"""The only source of noise for models, and the exact samplers of its integer distributions.

Noise is drawn from the system's randomness, not derived from keys, so each training is a new
release. Draws must be committed before they are used, so that a retry never draws again.
"""

import hashlib
import json
import math
import os
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, chain
from typing import Any, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from opboost_ops.config.resources import require_extra
from opboost_ops.errors import ConfigError, ContractError

#: Fixed point of Poisson weights, in bits. Weights below one unit are omitted; they are about 15
#: standard deviations from the mean.
_WEIGHT = 160

#: Bits of a threshold.
BITS = 128

#: Greatest mean, for which the distribution is exact to `DISTANCE` and its table fits in memory.
MAX_MEAN = 2**34

#: Bound on the total variation distance from the Poisson distribution: floors lose less than
#: 450 mean units of at least 2^160 sqrt(mean) in all, tails less, thresholds 30 sqrt(mean) 2^-128.
DISTANCE = 2.0**-100

KEY_BYTES = 32

#: Bound on the absolute error of a float weight exp(-x) for any x >= 0: the error of its argument
#: is below x 2^-51, and that of NumPy's exp is below 4 units in the last place.
_WEIGHT_ERROR = 2.0**-49


@dataclass(frozen=True, eq=False)
class Thresholds:
    """A Poisson distribution as a table for inversion.

    A uniform number of 128 bits is mapped to `first` plus the number of thresholds at or below it.

    Attributes:
        first: The least integer.
        high: The upper 64 bits of each threshold, ascending, uint64.
        low: The lower 64 bits of each threshold, uint64.
    """

    first: int
    high: np.ndarray
    low: np.ndarray


@lru_cache(maxsize=16)
def thresholds(mean: int) -> Thresholds:
    """Return the Poisson distribution of a mean, computed in integer arithmetic.

    Args:
        mean: A positive integer.

    Raises:
        ConfigError: The mean is too large.
    """
    if not 1 <= mean <= MAX_MEAN:
        raise ConfigError(
            "The noise for this epsilon is out of range.", "Declare a greater epsilon."
        )
    below, weight, at = [], 1 << _WEIGHT, mean
    while at > 0 and (weight := weight * at // mean):
        at -= 1
        below.append(weight)
    above, weight, at = [], 1 << _WEIGHT, mean
    while weight := weight * mean // (at := at + 1):
        above.append(weight)
    sums = list(accumulate(chain(reversed(below), [1 << _WEIGHT], above)))
    total = sums[-1]
    # Omit the last threshold, 2^128, which no number reaches.
    scaled = [(each << BITS) // total for each in sums[:-1]]
    mask = (1 << 64) - 1
    return Thresholds(
        mean - len(below),
        np.array([each >> 64 for each in scaled], dtype=np.uint64),
        np.array([each & mask for each in scaled], dtype=np.uint64),
    )


def require(entry: str = "training.trainer is dpboost") -> None:
    """Raise ConfigError if OpenDP is not installed.

    Args:
        entry: The entry of the federation file that needs it.
    """
    require_extra("opendp", "OpenDP", entry, "dpboost")


def fresh_key() -> bytes:
    """Draw a new key of 32 bytes, for `random_words` or a session of sums."""
    return secrets.token_bytes(KEY_BYTES)


def random_words(key: bytes, ensemble: int, rows: int) -> np.ndarray:
    """Return one word per row of an ensemble, independent of other rows and ensembles.

    Args:
        key: From `fresh_key`; the same key always gives the same words.
        ensemble: Number of the ensemble.
        rows: Number of rows.

    Returns:
        uint64, shape (rows,).
    """
    stream = Cipher(algorithms.AES(key), modes.CTR(ensemble.to_bytes(8, "big") + bytes(8)))
    return np.frombuffer(stream.encryptor().update(bytes(8 * rows)), dtype=np.uint64)


def laplace(values: Sequence[int], sensitivity: int, epsilon: Fraction) -> list[int]:
    """Add discrete Laplace noise to integers with OpenDP's exact sampler.

    Args:
        values: The integers.
        sensitivity: L1 sensitivity of all values together, at least 1.
        epsilon: Epsilon of releasing all values together.
    """
    noisy: list[int] = _measurement(sensitivity, epsilon)([int(value) for value in values])
    return noisy


def skellam(count: int, mean: int) -> np.ndarray:
    """Draw Skellam noise: differences of two Poisson variables, with variance 2 mean.

    Sums of Skellam variables are Skellam variables whose means add up, so the shares of several
    parties add up to the noise of the sum. Each number is exact to 2 `DISTANCE`.

    Args:
        count: Number of draws.
        mean: Mean of each Poisson variable, a positive integer.

    Returns:
        int64, shape (count,).
    """
    law = thresholds(mean)
    drawn = _poisson(2 * count, law)
    return np.asarray(drawn[:count] - drawn[count:])


def choose(scores: np.ndarray, factor: Fraction) -> np.ndarray:
    """Choose a column per row by the exponential mechanism, with weights exp(factor score).

    The choice is exact: a uniform real number is compared with the cumulative weights, and if its
    first 64 bits and floating-point arithmetic do not determine the side of a boundary, more bits
    are drawn and the weights are computed with more digits.

    Args:
        scores: Integers, shape (choices, candidates).
        factor: Epsilon divided by the range of a score's changes.

    Returns:
        Columns, int64, shape (choices,).
    """
    below = scores.max(axis=1, keepdims=True) - scores
    exponents = below.astype(np.float64) * float(factor)
    sums = np.cumsum(np.exp(-exponents), axis=1)
    choices, candidates = scores.shape
    # Bound on the errors of any sum and of the product with the word, and on the word's rest.
    error = 4 * candidates * (_WEIGHT_ERROR + candidates * 2.0**-52) + candidates * 2.0**-50
    drawn = np.frombuffer(os.urandom(8 * choices), dtype=np.uint64)
    points = drawn.astype(np.float64) * 2.0**-64 * sums[:, -1]
    lowest = (sums < (points - error)[:, None]).sum(axis=1)
    highest = (sums < (points + error)[:, None]).sum(axis=1)
    columns = np.minimum(highest, candidates - 1)
    for row in np.flatnonzero(lowest < highest):
        columns[row] = _choose_exactly([int(b) for b in below[row]], factor, int(drawn[row]))
    return np.asarray(columns)


class Memory(Protocol):
    """Storage for the draws of a training, as lines that are stored atomically."""

    def lines(self) -> list[bytes]:
        """Return all lines."""
        ...

    def append(self, line: bytes) -> None:
        """Store a line durably."""
        ...


def training_digest(words: Iterable[bytes], codes: np.ndarray, target: np.ndarray) -> str:
    """Return a digest of a training's declarations and rows.

    Args:
        words: Declarations.
        codes: Shape (n, features).
        target: Scaled labels, shape (n,).
    """
    digest = hashlib.sha256()
    for word in words:
        digest.update(word)
    digest.update(target.tobytes())
    digest.update(codes.tobytes())
    return digest.hexdigest()


def resume(memory: Memory | None, training: str) -> list[dict[str, Any]]:
    """Return the lines of an interrupted training; empty if it has not begun.

    Raises:
        ContractError: The memory is of another training.
    """
    lines = [] if memory is None else [json.loads(line) for line in memory.lines()]
    if lines and lines[0]["training"] != training:
        raise ContractError(
            "This run started training on another frame, and its draws are final.",
            "Trigger a new run.",
        )
    return lines


def commit(memory: Memory | None, **facts: object) -> None:
    """Store a line of JSON; do nothing without a memory."""
    if memory is not None:
        memory.append(json.dumps(facts, sort_keys=True).encode())


@lru_cache(maxsize=4096)
def _measurement(sensitivity: int, epsilon: Fraction) -> Any:
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_laplace
    from opendp.metrics import l1_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    scale = float(sensitivity / epsilon)
    while True:
        space = vector_domain(atom_domain(T=int)), l1_distance(T=int)
        measurement: Any = make_laplace(*space, scale=scale)
        # OpenDP computes the epsilon of the scale as represented.
        if Fraction(measurement.map(sensitivity)) <= epsilon:
            return measurement
        scale *= 1 + 2.0**-50


def _poisson(count: int, law: Thresholds) -> np.ndarray:
    high = np.frombuffer(os.urandom(8 * count), dtype=np.uint64)
    reached = np.searchsorted(law.high, high, side="right")
    # If the upper halves are equal, compare the lower ones: once in 2^64 / thresholds draws.
    close = np.flatnonzero((reached > 0) & (law.high[reached - 1] == high))
    for at in close:
        begin = int(np.searchsorted(law.high, high[at], side="left"))
        equal = law.low[begin : int(reached[at])]
        reached[at] = begin + int((equal <= np.uint64(secrets.randbits(64))).sum())
    return np.asarray(reached + law.first)


def _choose_exactly(below: list[int], factor: Fraction, word: int) -> int:
    """Return the column whose cumulative weights contain a uniform number.

    Args:
        below: Difference between the greatest score and each score.
        factor: As for `choose`.
        word: The first 64 bits of the number.
    """
    bits, digits = 64, 50
    while True:
        with localcontext(Context(prec=digits, rounding=ROUND_HALF_EVEN, Emin=-(10**9))):
            rate = Decimal(factor.numerator) / Decimal(factor.denominator)
            total, sums = Decimal(0), []
            for distance in below:
                total += (-rate * distance).exp()
                sums.append(total)
            # A generous bound on the rounding errors of rate, product, exp and sum.
            largest = 1 + float(factor) * max(below)
            error = total * len(below) * Decimal(10 * math.ceil(largest)) * Decimal(10) ** -digits
            low = total * word / Decimal(2) ** bits - 2 * error
            high = total * (word + 1) / Decimal(2) ** bits + 2 * error
            places = [sum(s <= point for s in sums) for point in (low, high)]
        # The number is always below the last sum, which is the total.
        first, last = (min(place, len(below) - 1) for place in places)
        if first == last:
            return first
        word = (word << 64) | secrets.randbits(64)
        bits, digits = bits + 64, digits + 25

"""The only source of randomness that protects models, and the integer laws that it samples.

Here noise is drawn and not keyed: each training is a new release. What is drawn must be committed
before anything is made from it, so that a retry never draws twice.
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

#: Fixed point of the weights, in bits: they are followed outwards until they are below one unit,
#: some 15 standard deviations from the mean.
_WEIGHT = 160

#: Bits of a threshold.
BITS = 128

#: Greatest mean: up to here the law is told to within `DISTANCE`, and its table fits in memory.
GREATEST = 2**34

#: Bound on the total variation between what is drawn and Poisson's law: floors lose less than
#: 450 mean units of at least 2^160 sqrt(mean) in all, tails less, thresholds 30 sqrt(mean) 2^-128.
DISTANCE = 2.0**-100

KEY_BYTES = 32

#: A bound on the absolute error of a float weight exp(-x), whatever x >= 0: its argument is off by
#: less than x 2^-51, and numpy's exp by less than 4 units in the last place.
_WEIGHT_ERROR = 2.0**-49


@dataclass(frozen=True, eq=False)
class Thresholds:
    """A Poisson law: a uniform number of 128 bits gives `first` plus the thresholds it reaches.

    Attributes:
        first: The least integer that is drawn.
        high: The upper 64 bits of each threshold, rising, uint64.
        low: The lower 64 bits.
    """

    first: int
    high: np.ndarray
    low: np.ndarray


@lru_cache(maxsize=16)
def thresholds(mean: int) -> Thresholds:
    """The law of a mean, in integer arithmetic throughout.

    Args:
        mean: A positive integer.

    Raises:
        ConfigError: It is too large.
    """
    if not 1 <= mean <= GREATEST:
        raise ConfigError(
            "The noise that this epsilon takes is out of range.", "Declare a greater epsilon."
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
    # The last threshold would be 2^128 itself, which no number reaches.
    scaled = [(each << BITS) // total for each in sums[:-1]]
    mask = (1 << 64) - 1
    return Thresholds(
        mean - len(below),
        np.array([each >> 64 for each in scaled], dtype=np.uint64),
        np.array([each & mask for each in scaled], dtype=np.uint64),
    )


def require(entry: str = "training.trainer is dpboost") -> None:
    """Make sure that OpenDP is there.

    Args:
        entry: What of the federation file needs it.

    Raises:
        ConfigError: It is not installed.
    """
    require_extra("opendp", "OpenDP", entry, "dpboost")


def fresh_key() -> bytes:
    """A key for `words`, or for a session of sums, 32 bytes, freshly drawn."""
    return secrets.token_bytes(KEY_BYTES)


def words(key: bytes, ensemble: int, rows: int) -> np.ndarray:
    """One word for each row of an ensemble, independent of all other rows and ensembles.

    Args:
        key: From `fresh_key`; the same key gives the same words, also after a crash.
        ensemble: Number of the ensemble.
        rows: How many.

    Returns:
        uint64, shape (rows,).
    """
    stream = Cipher(algorithms.AES(key), modes.CTR(ensemble.to_bytes(8, "big") + bytes(8)))
    return np.frombuffer(stream.encryptor().update(bytes(8 * rows)), dtype=np.uint64)


def laplace(values: Sequence[int], sensitivity: int, epsilon: Fraction) -> list[int]:
    """Add discrete Laplace noise to integers, by OpenDP's exact sampler.

    Args:
        values: Integers that a row moves by at most the sensitivity, added up over all of them.
        sensitivity: At least 1.
        epsilon: Of the release of all values together.
    """
    noisy: list[int] = _measurement(sensitivity, epsilon)([int(value) for value in values])
    return noisy


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
        # OpenDP's own account of it, in the scale's real value, decides.
        if Fraction(measurement.map(sensitivity)) <= epsilon:
            return measurement
        scale *= 1 + 2.0**-50


def skellam(count: int, mean: int) -> np.ndarray:
    """Skellam noise: each number the difference of two Poisson ones, so of variance 2 mean.

    Sums of it are of the same law, with the means added up: parties that each add a share make
    exactly the noise of the sum. Drawn to within 2 `DISTANCE` a number.

    Args:
        count: How many numbers.
        mean: Of each Poisson number, a positive integer.

    Returns:
        int64, shape (count,).
    """
    law = thresholds(mean)
    drawn = _poisson(2 * count, law)
    return np.asarray(drawn[:count] - drawn[count:])


def _poisson(count: int, law: Thresholds) -> np.ndarray:
    high = np.frombuffer(os.urandom(8 * count), dtype=np.uint64)
    reached = np.searchsorted(law.high, high, side="right")
    # Where the upper halves are equal the lower ones decide: once in 2^64 / thresholds draws.
    close = np.flatnonzero((reached > 0) & (law.high[reached - 1] == high))
    for at in close:
        begin = int(np.searchsorted(law.high, high[at], side="left"))
        equal = law.low[begin : int(reached[at])]
        reached[at] = begin + int((equal <= np.uint64(secrets.randbits(64))).sum())
    return np.asarray(reached + law.first)


def choose(scores: np.ndarray, factor: Fraction) -> np.ndarray:
    """The exponential mechanism: for each row of scores a column, with weight exp(factor score).

    Exactly so: a uniform real number is compared with the cumulative weights, and whenever its
    first 64 bits and floating point cannot tell on which side of a boundary it lies, more of its
    bits are drawn, and the weights are computed to as many digits as it takes.

    Args:
        scores: Integers, shape (choices, candidates).
        factor: What a score is multiplied by; epsilon over the range of a score's changes.

    Returns:
        int64, shape (choices,).
    """
    below = scores.max(axis=1, keepdims=True) - scores
    exponents = below.astype(np.float64) * float(factor)
    sums = np.cumsum(np.exp(-exponents), axis=1)
    choices, candidates = scores.shape
    # Bound on the error of any sum, of the product with the word, and on the word's further bits.
    error = 4 * candidates * (_WEIGHT_ERROR + candidates * 2.0**-52) + candidates * 2.0**-50
    drawn = np.frombuffer(os.urandom(8 * choices), dtype=np.uint64)
    points = drawn.astype(np.float64) * 2.0**-64 * sums[:, -1]
    lowest = (sums < (points - error)[:, None]).sum(axis=1)
    highest = (sums < (points + error)[:, None]).sum(axis=1)
    columns = np.minimum(highest, candidates - 1)
    for row in np.flatnonzero(lowest < highest):
        columns[row] = _chosen_exactly([int(b) for b in below[row]], factor, int(drawn[row]))
    return np.asarray(columns)


def _chosen_exactly(below: list[int], factor: Fraction, word: int) -> int:
    """The column of the cumulative weights in which a uniform number lies that begins with a word.

    Args:
        below: By how much each score is less than the greatest.
        factor: As `choose` has it.
        word: The number's first 64 bits.
    """
    bits, digits = 64, 50
    while True:
        with localcontext(Context(prec=digits, rounding=ROUND_HALF_EVEN, Emin=-(10**9))):
            rate = Decimal(factor.numerator) / Decimal(factor.denominator)
            total, sums = Decimal(0), []
            for distance in below:
                total += (-rate * distance).exp()
                sums.append(total)
            # Rounding in rate, product, exp and sum, with digits to spare.
            largest = 1 + float(factor) * max(below)
            error = total * len(below) * Decimal(10 * math.ceil(largest)) * Decimal(10) ** -digits
            low = total * word / Decimal(2) ** bits - 2 * error
            high = total * (word + 1) / Decimal(2) ** bits + 2 * error
            places = [sum(s <= point for s in sums) for point in (low, high)]
        # The last sum is the total itself, which the number never reaches.
        first, last = (min(place, len(below) - 1) for place in places)
        if first == last:
            return first
        word = (word << 64) | secrets.randbits(64)
        bits, digits = bits + 64, digits + 25


class Memory(Protocol):
    """Where a training stores what it has drawn: lines, each stored whole or not at all."""

    def lines(self) -> list[bytes]:
        """All lines so far."""
        ...

    def append(self, line: bytes) -> None:
        """Store one more; when this returns, it outlives a crash."""
        ...


def digest_of(words: Iterable[bytes], codes: np.ndarray, target: np.ndarray) -> str:
    """Names a training: what was declared, and its rows.

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
    """The lines of an earlier try; none for a training that has not begun.

    Raises:
        ContractError: The memory is of another training.
    """
    lines = [] if memory is None else [json.loads(line) for line in memory.lines()]
    if lines and lines[0]["training"] != training:
        raise ContractError(
            "This run began to train on another frame, and its draws are final.",
            "Trigger a new run.",
        )
    return lines


def commit(memory: Memory | None, **facts: object) -> None:
    """Store one line."""
    if memory is not None:
        memory.append(json.dumps(facts, sort_keys=True).encode())

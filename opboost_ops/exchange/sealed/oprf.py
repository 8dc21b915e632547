"""The oblivious PRF between the label holder and a feature holder: x -> tag(b H(x)).

The label holder blinds H(x) with its exponent a, the feature holder multiplies by its exponent b,
and the inverse of a removes the blinding. The label holder learns b H(x) for the queried points
only, and the feature holder learns only their number.

    1. query = blind(a, messages), sorted: the sort is the shuffle
    2. answer = evaluate(b, query)
    3. points = unblind(a, answer), and tags of them
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from opboost_ops.exchange.sealed import curve
from opboost_ops.exchange.sealed.engine import Engine
from opboost_ops.exchange.sealed.ids import CANARY, repeated_ids
from opboost_ops.exchange.sealed.parts import number_rows, part_count, record, sorted_parts
from opboost_ops.mechanisms.noise import keyed_by
from opboost_ops.tables.spill.arrays import Scratch

#: Messages, one per row, in pieces of any size.
Messages = Iterable[Sequence[bytes]]


def domain_tag(federation: str) -> bytes:
    """Return the domain separation tag of a federation's points.

    Args:
        federation: Name of the federation.
    """
    return f"OPBOOST-PSI-V01:{federation}:{curve.SUITE}".encode()


@dataclass(frozen=True)
class BlindingKey:
    """The label holder's exponent of one session.

    Attributes:
        scalar: The exponent, 32 bytes.
        inverse: Its inverse scalar, 32 bytes.
    """

    scalar: bytes = field(repr=False)
    inverse: bytes = field(repr=False)

    @classmethod
    def of(cls, seed: bytes) -> "BlindingKey":
        """Derive the exponent from a session's seed."""
        for counter in range(256):
            scalar = keyed_by(seed, f"psi:blind:{counter}")
            inverse = curve.inverse_scalar(scalar)
            if inverse is not None:
                return cls(scalar, inverse)
        raise AssertionError("unreachable: 256 scalars without an inverse")


def evaluation_key(seed: bytes) -> bytes:
    """Derive a feature holder's exponent of one session from its seed, 32 bytes."""
    return keyed_by(seed, "psi:evaluate")


def blind(
    engine: Engine, seed: bytes, federation: str, messages: Messages, total: int, scratch: Scratch
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Blind messages and the canary, and sort the points by their bytes, which shuffles them.

    Args:
        engine: Multiplies points.
        seed: The label holder's seed of the session.
        federation: Name of the federation.
        messages: One message per row, in pieces.
        total: Number of messages.
        scratch: Spills points to disk if they exceed its memory limit.

    Yields:
        The number of a part of the query, in increasing order; some of its points, uint8, shape
        (k, 32); and the row of each, integers; the canary's row is ``total``.

    Raises:
        ContractError: Two rows have the same ID.
    """
    scalar, tag, count = BlindingKey.of(seed).scalar, domain_tag(federation), total + 1
    blinded = engine.hash_and_multiply(_canary_last(messages), tag, scalar, "query", count)
    records = number_rows(({"key": points} for _, points in blinded), record(count, curve.POINT))
    repeated = 0
    for part, batch in sorted_parts(scratch, records, count, part_count(count)):
        points = np.ascontiguousarray(batch["key"])
        repeated += _repeated(points)
        yield part, points, batch["row"]
    if repeated:
        raise repeated_ids(repeated)


def evaluate(
    engine: Engine, seed: bytes, query: Iterable[np.ndarray], total: int
) -> Iterator[np.ndarray]:
    """Answer a query, in its order.

    Args:
        engine: Multiplies points.
        seed: The feature holder's seed of the session.
        query: Parts of the query, uint8, shape (n, 32).
        total: Number of points of the query.

    Yields:
        The parts of the answer, uint8, shape (n, 32).

    Raises:
        ValueError: A point is of small order.
    """
    return engine.multiply(query, evaluation_key(seed), "answer", total)


def unblind(
    engine: Engine, seed: bytes, answer: Iterable[np.ndarray], total: int, holder: str
) -> Iterator[np.ndarray]:
    """Remove the blinding: return the points b H(x), in the query's order.

    Args:
        engine: Multiplies points.
        seed: The label holder's seed of the session.
        answer: Parts of the answer, uint8, shape (n, 32).
        total: Number of points of the answer.
        holder: The feature holder that answered.

    Yields:
        Parts, uint8, shape (n, 32).

    Raises:
        ValueError: A point is of small order.
    """
    return engine.multiply(answer, BlindingKey.of(seed).inverse, f"unblind {holder}", total)


def require_once(keys: np.ndarray) -> None:
    """Reject two rows of one person.

    Args:
        keys: Points or tags sorted by their bytes, uint8, shape (n, width).

    Raises:
        ContractError: Two are equal, hence their IDs.
    """
    repeated = _repeated(keys)
    if repeated:
        raise repeated_ids(repeated)


def _repeated(keys: np.ndarray) -> int:
    return int((keys[1:] == keys[:-1]).all(axis=1).sum())


def _canary_last(messages: Messages) -> Iterator[Sequence[bytes]]:
    yield from messages
    yield [CANARY]

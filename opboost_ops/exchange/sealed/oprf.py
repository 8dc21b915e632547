"""The oblivious PRF between the label holder and a feature holder: x -> tag(b H(x)).

The label holder blinds H(x) with its exponent a; the feature holder raises what it gets to its
own exponent b; a' takes a away again. So the label holder learns b H(x) for the points that it
asked about and for no other, and the feature holder learns how many these were.

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
from opboost_ops.exchange.sealed.parts import numbered, part_count, record, rising_parts
from opboost_ops.mechanisms.noise import keyed_by
from opboost_ops.tables.spill.arrays import Scratch

#: Messages, one per row, in pieces of any size.
Messages = Iterable[Sequence[bytes]]


def domain_tag(federation: str) -> bytes:
    """The domain separation tag of a federation's points.

    Args:
        federation: Its name.
    """
    return f"OPBOOST-PSI-V01:{federation}:{curve.SUITE}".encode()


@dataclass(frozen=True)
class Blind:
    """The label holder's exponent of one session.

    Attributes:
        scalar: It, 32 bytes.
        inverse: What undoes it.
    """

    scalar: bytes = field(repr=False)
    inverse: bytes = field(repr=False)

    @classmethod
    def of(cls, seed: bytes) -> "Blind":
        """The exponent that follows from a session's seed."""
        for counter in range(256):
            scalar = keyed_by(seed, f"psi:blind:{counter}")
            inverse = curve.inverse_scalar(scalar)
            if inverse is not None:
                return cls(scalar, inverse)
        raise AssertionError("unreachable: 256 scalars without an inverse")


def evaluation_key(seed: bytes) -> bytes:
    """A feature holder's exponent of one session, 32 bytes, from its seed."""
    return keyed_by(seed, "psi:evaluate")


def ask(
    engine: Engine, seed: bytes, federation: str, messages: Messages, total: int, scratch: Scratch
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Blind messages and the canary, in the order of the points' bytes: the sort is the shuffle.

    Args:
        engine: Multiplies.
        seed: The label holder's of the session.
        federation: Name of the federation.
        messages: One a row, in pieces.
        total: How many they are.
        scratch: Where points wait, if they are more than it holds.

    Yields:
        The number of a part of the query, which never falls; some of its points, uint8, shape
        (k, 32); and the row of each, integers, of which the canary's is ``total``.

    Raises:
        ContractError: A row has an ID that another row has.
    """
    scalar, tag, count = Blind.of(seed).scalar, domain_tag(federation), total + 1
    hashed = engine.hashed(_canary_last(messages), tag, scalar, "query", count)
    records = numbered(({"key": points} for _, points in hashed), record(count, curve.POINT))
    repeated = 0
    for part, batch in rising_parts(scratch, records, count, part_count(count)):
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
        engine: Multiplies.
        seed: The feature holder's of the session.
        query: Its parts, uint8, shape (n, 32).
        total: How many points they have.

    Yields:
        The parts of the answer, uint8, shape (n, 32).

    Raises:
        ValueError: A point is of small order.
    """
    return engine.multiplied(query, evaluation_key(seed), "answer", total)


def unblind(
    engine: Engine, seed: bytes, answer: Iterable[np.ndarray], total: int, holder: str
) -> Iterator[np.ndarray]:
    """The points b H(x) of what the label holder asked about, in the query's order.

    Args:
        engine: Multiplies.
        seed: The label holder's of the session.
        answer: Its parts, uint8, shape (n, 32).
        total: How many points they have.
        holder: Whose answer it is.

    Yields:
        Parts, uint8, shape (n, 32).

    Raises:
        ValueError: A point is of small order.
    """
    return engine.multiplied(answer, Blind.of(seed).inverse, f"unblind {holder}", total)


def require_once(keys: np.ndarray) -> None:
    """Refuse two rows of one person.

    Args:
        keys: Points or tags in the order of their bytes, uint8, shape (n, width).

    Raises:
        ContractError: Some agree, so their IDs do.
    """
    repeated = _repeated(keys)
    if repeated:
        raise repeated_ids(repeated)


def _repeated(keys: np.ndarray) -> int:
    return int((keys[1:] == keys[:-1]).all(axis=1).sum())


def _canary_last(messages: Messages) -> Iterator[Sequence[bytes]]:
    yield from messages
    yield [CANARY]

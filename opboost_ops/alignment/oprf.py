"""The oblivious PRF between the label holder and a feature holder: x -> tag(b H(x)).

The label holder blinds H(x) with its exponent a; the feature holder raises what it gets to its
own exponent b; a' takes a away again. So the label holder learns b H(x) for the points that it
asked about and for no other, and the feature holder learns how many these were.

    1. query = blind(a, messages), sorted: the sort is the shuffle
    2. answer = evaluate(b, query)
    3. points = unblind(a, answer), and tags of them
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from opboost_ops.alignment import curve
from opboost_ops.alignment.engine import Engine
from opboost_ops.alignment.ids import CANARY
from opboost_ops.alignment.tags import sorting
from opboost_ops.mechanisms.noise import keyed_by


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


@dataclass(frozen=True)
class Query:
    """What the label holder asks, of all feature holders the same.

    Attributes:
        points: uint8, shape (n + 1, 32), strictly rising; one is the canary's.
        rows: Which row of the table each point is of, int64, shape (n + 1,); n for the canary.
    """

    points: np.ndarray
    rows: np.ndarray


def blind(engine: Engine, seed: bytes, federation: str, messages: Sequence[bytes]) -> Query:
    """Ask about messages and the canary.

    Args:
        engine: Multiplies.
        seed: The label holder's of the session.
        federation: Name of the federation.
        messages: One a row.
    """
    points = _points(engine, Blind.of(seed).scalar, federation, messages, "query")
    rows = sorting(points)
    return Query(points[rows], rows)


def own_points(
    engine: Engine, seed: bytes, federation: str, messages: Sequence[bytes]
) -> np.ndarray:
    """The points b H(y) of a feature holder's own messages, and of the canary as the last.

    Args:
        engine: Multiplies.
        seed: The feature holder's of the session.
        federation: Name of the federation.
        messages: One a row.

    Returns:
        uint8, shape (n + 1, 32).
    """
    return _points(engine, evaluation_key(seed), federation, messages, "digests")


def evaluate(engine: Engine, seed: bytes, query: np.ndarray) -> np.ndarray:
    """Answer a query, in its order.

    Args:
        engine: Multiplies.
        seed: The feature holder's of the session.
        query: uint8, shape (n, 32).

    Returns:
        uint8, shape (n, 32).

    Raises:
        ValueError: A point is of small order.
    """
    return engine.multiplied(query, evaluation_key(seed), "answer")


def unblind(engine: Engine, seed: bytes, answer: np.ndarray, holder: str) -> np.ndarray:
    """The points b H(x) of what the label holder asked about, in the query's order.

    Args:
        engine: Multiplies.
        seed: The label holder's of the session.
        answer: uint8, shape (n, 32).
        holder: Whose answer it is.

    Returns:
        uint8, shape (n, 32).

    Raises:
        ValueError: A point is of small order.
    """
    return engine.multiplied(answer, Blind.of(seed).inverse, f"unblind {holder}")


def with_canary(messages: Sequence[bytes]) -> list[bytes]:
    """Messages, and the canary as the last."""
    return [*messages, CANARY]


def _points(
    engine: Engine, scalar: bytes, federation: str, messages: Sequence[bytes], role: str
) -> np.ndarray:
    return engine.hashed(with_canary(messages), domain_tag(federation), scalar, role)

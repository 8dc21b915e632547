"""A feature holder's points of its own people: multiplied once in a month."""

from collections.abc import Iterator, Sequence

import numpy as np

from opboost_ops.alignment import oprf, zero_shares
from opboost_ops.alignment.curve import POINT
from opboost_ops.alignment.ids import CANARY
from opboost_ops.scratch.arrays import let_go
from opboost_ops.stages.psi_session import Session, changed
from opboost_ops.stages.stage import Context

#: Whose points a cache holds that is not named by another party.
OWN = "own"


def own_points(context: Context, session: Session) -> Iterator[tuple[list[bytes], np.ndarray]]:
    """Messages of all people, the canary's last, and their points, uint8, shape (k, 32).

    Args:
        context: The feature holder's.
        session: Its own.

    Raises:
        ContractError: The table was rewritten meanwhile.
    """
    count, cache = session.rows + 1, session.cache(OWN)
    known, points = cache.find(_with_canary(session), count)
    missing = count - int(known.sum())
    if missing:
        tag = oprf.domain_tag(context.federation.name)
        made = session.engine.hashed(
            _chosen(session, ~known), tag, oprf.evaluation_key(session.exponent), "own", missing
        )
        rows, end = np.flatnonzero(~known), 0
        for messages, some in made:
            begin, end = end, end + len(messages)
            points[rows[begin:end]] = some
            let_go()
        if end != missing:
            raise changed(context)
        new = (
            ([m for m, is_new in zip(messages, fresh, strict=True) if is_new], some[fresh])
            for messages, some, fresh in _beside(session, points, ~known)
        )
        cache.add(new, missing)
        session.forget_blocks()
    for messages, some, _ in _beside(session, points, known):
        yield messages, some


def pair_keys(context: Context) -> dict[str, bytes]:
    """The key that a feature holder shares with each other one, in this run."""
    assert context.acceptance is not None
    keys = context.acceptance.keys
    assert keys is not None
    assert keys.private is not None
    found = {}
    for holder in context.federation.feature_holders:
        public = context.federation.parties[holder].encryption_key
        if holder == context.party or public is None:
            continue
        first, second = sorted((holder, context.party))
        place = f"{context.federation.name}/{context.run}/{context.plan}/{first}/{second}"
        found[holder] = zero_shares.pair_key(keys.private.shared(public), place)
    return found


def _with_canary(session: Session) -> Iterator[list[bytes]]:
    yield from session.messages()
    yield [CANARY]


def _beside(
    session: Session, points: np.ndarray, marked: np.ndarray
) -> Iterator[tuple[list[bytes], np.ndarray, np.ndarray]]:
    end = 0
    for messages in _with_canary(session):
        begin, end = end, end + len(messages)
        yield messages, np.asarray(points[begin:end]).reshape(-1, POINT), marked[begin:end]
        let_go()


def _chosen(session: Session, wanted: np.ndarray) -> Iterator[Sequence[bytes]]:
    end = 0
    for messages in _with_canary(session):
        begin, end = end, end + len(messages)
        yield [m for m, wants in zip(messages, wanted[begin:end], strict=True) if wants]

"""A feature holder's points of its own people: multiplied once in a month."""

import numpy as np

from opboost_ops.exchange.sealed import oprf, zero_shares
from opboost_ops.pipeline.inputs import raw_table
from opboost_ops.pipeline.matching.psi_session import Session
from opboost_ops.pipeline.stage import Context
from opboost_ops.tables.spill.arrays import release_memory

#: Whose points a cache holds that is not named by another party.
OWN = "own"


def own_points(context: Context, session: Session) -> np.ndarray:
    """Points of all people, the canary's last, uint8, shape (rows + 1, 32).

    Args:
        context: The feature holder's.
        session: Its own.

    Raises:
        ContractError: The table was rewritten meanwhile.
    """
    count, cache = session.rows + 1, session.cache(OWN)
    cached, points = cache.find((messages for messages, _ in session.everybody()), count)
    unknown = ~cached
    missing = np.flatnonzero(unknown)
    if len(missing):
        tag = oprf.domain_tag(context.federation.name)
        hashed = session.engine.hashed(
            (messages for messages, _ in session.chosen(unknown)),
            tag,
            oprf.evaluation_key(session.exponent),
            "own",
            len(missing),
        )
        end = 0
        for messages, some in hashed:
            begin, end = end, end + len(messages)
            points[missing[begin:end]] = some
            release_memory()
        if end != len(missing):
            raise raw_table.changed(context)
        new = ((m, points[rows][unknown[rows]]) for m, rows in session.chosen(unknown))
        cache.add(new, len(missing))
        session.forget_blocks()
    return points


def pair_keys(context: Context) -> dict[str, bytes]:
    """The key that a feature holder shares with each other one, in this run."""
    assert context.acceptance is not None
    keys = context.acceptance.keys
    assert keys is not None
    assert keys.private is not None
    by_holder = {}
    for holder in context.federation.feature_holders:
        public = context.federation.parties[holder].encryption_key
        if holder == context.party or public is None:
            continue
        first, second = sorted((holder, context.party))
        place = f"{context.federation.name}/{context.run}/{context.plan}/{first}/{second}"
        by_holder[holder] = zero_shares.pair_key(keys.private.shared(public), place)
    return by_holder

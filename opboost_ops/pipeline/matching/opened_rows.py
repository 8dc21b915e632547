"""At the label holder: rows of feature holders, opened for people whose points it knows."""

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from opboost_ops.errors import SetupError
from opboost_ops.exchange.artifact import Artifact
from opboost_ops.exchange.encoding import narrow_integers
from opboost_ops.exchange.points import layout_of
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.sealed import oprf, sealing, shares
from opboost_ops.exchange.sealed.curve import POINT
from opboost_ops.exchange.sealed.engine import BLOCK
from opboost_ops.exchange.sealed.row_formats import Rows
from opboost_ops.pipeline.matching.psi_session import Session, session_of
from opboost_ops.pipeline.stage import Context
from opboost_ops.pipeline.steps.psi_query import queried
from opboost_ops.tables.spill.arrays import slices
from opboost_ops.tables.spill.parts import scatter

#: Who is in a feature holder's table, bool, shape (n + 1,), and their packed rows; the canary last.
Opened = tuple[np.ndarray, np.ndarray]


def open_tables(context: Context, tables: Mapping[str, Rows]) -> dict[str, Opened]:
    """Open what feature holders have sealed, for the rows of the own table.

    Args:
        context: The label holder's.
        tables: Kind and form of each holder's rows.

    Returns:
        By holder; with zero sharings a row opens only where all of them have the person.

    Raises:
        SetupError: Keys or versions of the parties differ.
        Rejected: An answer or a table is not what it must be.
    """
    session = session_of(context)
    holders = context.federation.feature_holders
    points = {holder: _points(context, session, holder) for holder in holders}
    count, scratch = session.rows + 1, context.home.scratch
    sharings = (
        shares.Sharings(scratch, count, len(holders)) if context.federation.has_shares else None
    )
    for at, holder in enumerate(holders if sharings else ()):
        assert sharings is not None
        laid = context.receive("shares", holder)
        people = ((m, p) for m, p, _ in _people(session, points[holder], None))
        layout = layout_of(laid)
        sharings.add(at, people, layout.nonce, laid.parts, partial(_share, laid))
    by_holder = {}
    for at, holder in enumerate(holders):
        rows = tables[holder]
        table = context.receive(rows.kind, holder)
        layout, width = layout_of(table), rows.format.width
        if layout.width != width:
            raise Rejected(
                "malformed", f"{table.manifest.reference}: its rows are not as wide as declared."
            )
        zeros = None if sharings is None else sharings.of(at)
        opened = sealing.opened(
            scratch,
            _people(session, points[holder], zeros),
            count,
            layout.nonce,
            rows.kind,
            width,
            table.parts,
            partial(table.part, width=sealing.ROW_TAG + width),
        )
        if not opened[0][-1]:
            raise SetupError(
                f"The canary was not found at {holder}: keys or versions of the parties differ.",
                "Compare the release that each party runs, and encryption keys and ID column in "
                "their federation files; then trigger a new run.",
            )
        by_holder[holder] = opened
    session.forget_blocks()
    return by_holder


def _share(laid: Artifact, number: int) -> shares.Layout:
    layout = layout_of(laid)
    content = laid.part(number, layout.width)
    return shares.Layout(content, layout.numbers[number], layout.keys[number])


def _people(
    session: Session, points: np.ndarray, zeros: np.ndarray | None
) -> Iterator[sealing.Keyed]:
    for messages, rows in session.everybody():
        yield messages, points[rows], None if zeros is None else zeros[rows]


def _points(context: Context, session: Session, holder: str) -> np.ndarray:
    """Points under a holder's exponent of all rows, uint8, shape (n + 1, 32): known or answered."""
    cache, count, scratch = session.cache(holder), session.rows + 1, context.home.scratch
    cached, points = cache.find((messages for messages, _ in session.everybody()), count)
    rows = narrow_integers(context.home.table(queried(holder)), "row")
    new = np.zeros(count, dtype=bool)
    new[rows] = True
    new &= ~cached
    if not (cached | new).all():
        raise SetupError(
            f"Points of {holder} that the run knew at its start are missing.",
            "Trigger a new run: it queries those people again.",
        )
    # The canary is in every query: its answer shows whether the key is still the same.
    wanted = new.copy()
    wanted[-1] = True
    pieces = _unblinded(context, session, rows, wanted, holder)
    fresh = scatter(scratch, pieces, count, {"": ("u1", (POINT,))})[""]
    if cached[-1] and (fresh[-1] != points[-1]).any():
        cache.drop()
        raise SetupError(
            f"{holder} has another key of the month than before.",
            "Trigger a new run: it queries everybody again; a person counts once in a month.",
        )
    for some in slices(count):
        points[some][new[some]] = fresh[some][new[some]]
    people = ((m, points[rows][new[rows]]) for m, rows in session.chosen(new))
    cache.add(people, int(new.sum()))
    return points


def _unblinded(
    context: Context, session: Session, rows: np.ndarray, wanted: np.ndarray, holder: str
) -> Iterator[tuple[np.ndarray, Mapping[str, np.ndarray]]]:
    """Rows that are wanted, and their unblinded points, in the order of the query."""
    answer = context.receive("psi_answer", holder)
    sizes: list[int] = context.home.json(queried(holder))["parts"]
    places = rows[wanted[rows]]

    def pieces() -> Iterator[np.ndarray]:
        begin = 0
        for number, size in enumerate(sizes):
            points = answer.part(number, POINT)
            if len(points) != size:
                raise Rejected(
                    "wrong_row_count", f"The answer of {holder} has other parts than the query."
                )
            for some in slices(size, BLOCK):
                here = rows[begin + some.start : begin + some.stop]
                yield points[some][wanted[here]]
            begin += size
            del points  # Before the next part is read.

    end, failed = 0, False
    try:
        # Everybody else waits for this.
        engine = session.engine.spread(len(places))
        for points in oprf.unblind(engine, session.exponent, pieces(), len(places), holder):
            begin, end = end, end + len(points)
            yield places[begin:end], {"": points}
    except ValueError:
        failed = True
    if failed:
        raise Rejected("malformed", f"The answer of {holder} holds a point of small order.")

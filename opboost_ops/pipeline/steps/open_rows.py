"""Step: answers and sealed tables -> rows of the common people, in the common order."""

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from opboost_ops.errors import ContractError, SetupError
from opboost_ops.exchange.artifact import Artifact
from opboost_ops.exchange.contents import layout_of
from opboost_ops.exchange.files import narrow_integers, smallest_integers
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.sealed import oprf, sealing, zero_shares
from opboost_ops.exchange.sealed.curve import POINT
from opboost_ops.exchange.sealed.engine import BLOCK
from opboost_ops.exchange.sealed.sealing import Rows
from opboost_ops.pipeline.inputs.common_rows import ORDER
from opboost_ops.pipeline.inputs.holdout import held_out_rows, require_common
from opboost_ops.pipeline.matching import Session, session_of
from opboost_ops.pipeline.stage import Context, Outcome
from opboost_ops.pipeline.steps.psi_query import queried
from opboost_ops.tables.spill.arrays import Scratch, slices
from opboost_ops.tables.spill.parts import gather, scatter

#: Membership in a feature holder's table, bool, shape (n + 1,), and packed rows; the canary last.
Opened = tuple[np.ndarray, np.ndarray]

#: Folder of the label holder with row counts of the last releases, by purpose.
_RELEASED = "released_rows"


def open_rows(context: Context) -> Outcome:
    """Open the rows of people whom all parties have, and select the held-out ones.

    With ``overlap: left`` all rows of the label holder are included, and values of feature holders
    that lack the person are missing.

    The common order is that of the label holder's own digests. `holdout` determines the held-out
    rows; new rows are all held out.

    Neither the content of a single row nor the members of a table can stop the run: ranks outside
    the declared range are clipped, and a person whose row does not open at all feature holders is
    left out. Their number stays at home.

    Raises:
        ContractError: Keys or versions of the parties differ, or there are too few common people.
        ApprovalError: A release has less than half as many rows as the last one, and nobody has
            approved it.
        Rejected: An answer or a table is malformed.
    """
    tables = rows_of(context)
    released = {
        holder: context.receive(of.kind, holder).manifest.rows for holder, of in tables.items()
    }
    _require_as_large(context, released)
    opened = open_tables(context, tables)
    common = _common(context, opened)
    require_common(context, _count(common))
    if context.federation.keeps_all:
        common[:] = True
    rows = _in_digest_order(context, common)
    held_out = _held_out(context, rows)
    holdout = _count(held_out)
    train = len(held_out) - holdout
    if context.purpose == "train" and not (train and holdout):
        raise ContractError(
            "None or all of the common rows are held out: training and evaluation both need rows.",
            "Change training.holdout.",
        )
    positions = _training_first(context.home.scratch, rows, held_out, train)
    facts = {"train": train, "holdout": holdout}
    return Outcome(
        tables=_in_common_order(context, tables, opened, positions),
        documents={"alignment": facts},
        lasting={f"{_RELEASED}/{context.purpose}": released},
        summary=facts,
    )


def _count(which: np.ndarray) -> int:
    return sum(int(which[some].sum()) for some in slices(len(which)))


def _in_common_order(
    context: Context,
    tables: Mapping[str, Rows],
    opened: Mapping[str, Opened],
    positions: np.ndarray,
) -> dict[str, pa.Table]:
    """Return the common rows' positions in the own table, and each feature holder's opened rows."""
    scratch, left = context.home.scratch, context.federation.keeps_all
    contents = {"alignment": pa.table({"position": smallest_integers(positions, scratch)})}
    for holder, (present, packed) in opened.items():
        there = gather(scratch, present, positions)
        columns = tables[holder].unpack(gather(scratch, packed, positions))
        contents[opened_table(holder)] = pa.table(
            {
                name: _null_where_absent(there, smallest_integers(values, scratch)) if left
                else smallest_integers(values, scratch)
                for name, values in columns.items()
            }
        )  # fmt: skip
        if left:
            contents[members_table(holder)] = pa.table({"there": pa.array(there)})
    return contents


def _require_as_large(context: Context, released: Mapping[str, int]) -> None:
    """Request approval for releases with less than half as many rows as the last ones.

    The feature holder chooses the number of rows, so a refusal discloses nothing about others.
    """
    name = f"{_RELEASED}/{context.purpose}"
    before = context.lasting.json(name) if context.lasting.has(name) else {}
    shrunk = [
        f"{holder} released {rows:,} rows, and {before[holder]:,} before"
        for holder, rows in released.items()
        if 2 * rows < before.get(holder, 0)
    ]
    if shrunk:
        context.confirm(shrunk)


def rows_of(context: Context) -> dict[str, Rows]:
    """Return the kind and format of the rows that each feature holder seals for the run.

    Args:
        context: The label holder's context.
    """
    by_holder = {}
    for holder in context.federation.feature_holders:
        columns = context.columns(holder)
        kind = "ranks" if context.purpose == "train" else "values"
        if context.purpose == "score" and context.federation.scoring.mode == "routed":
            by_holder[holder] = routed_rows(context, holder)
            continue
        by_holder[holder] = Rows(kind, columns)
    return by_holder


def routed_rows(context: Context, holder: str) -> Rows:
    """Return the kind and format of a feature holder's answers to the requested thresholds.

    Args:
        context: The label holder's context.
        holder: Name of the feature holder.
    """
    thresholds = context.receive("route_request", holder).document["thresholds"]
    columns = [column for column in context.columns(holder) if column.name in thresholds]
    return Rows("routes", columns, thresholds)


def _null_where_absent(there: np.ndarray, values: pa.Array) -> pa.Array:
    return pc.if_else(pa.array(there), values, pa.scalar(None, values.type))


def _common(context: Context, opened: dict[str, Opened]) -> np.ndarray:
    """Return which own rows opened at all feature holders, or with ``overlap: left`` at any."""
    every = list(opened.values())
    left = context.federation.keeps_all
    both, rows = np.logical_or if left else np.logical_and, len(every[0][0]) - 1
    blocks = (both.reduce([there[some] for there, _ in every]) for some in slices(rows))
    return context.home.scratch.filled(rows, bool, blocks)


def _in_digest_order(context: Context, common: np.ndarray) -> np.ndarray:
    """Return the common rows in the order of the own digests, which no other party can compute."""
    scratch, listed = context.home.scratch, narrow_integers(context.home.table(ORDER), "row")
    wanted = gather(scratch, common, listed)
    count = _count(wanted)
    blocks = (listed[some][wanted[some]] for some in slices(len(wanted)))
    return scratch.filled(count, listed.dtype, blocks)


def _training_first(
    scratch: Scratch, rows: np.ndarray, held_out: np.ndarray, train: int
) -> np.ndarray:
    """Return the common order: training rows first, each side ordered by digest."""
    order = scratch.zeros(len(rows), rows.dtype)
    ends = {False: 0, True: train}
    for some in slices(len(rows)):
        for side, end in ends.items():
            part = rows[some][held_out[some] == side]
            ends[side] = end + len(part)
            order[end : ends[side]] = part
    return order


def _held_out(context: Context, rows: np.ndarray) -> np.ndarray:
    """Return which of the common rows, in digest order, are held out, bool, shape (c,)."""
    scratch = context.home.scratch
    if context.purpose == "score":
        ones = (np.ones(some.stop - some.start, bool) for some in slices(len(rows)))
        return scratch.filled(len(rows), bool, ones)
    return gather(scratch, held_out_rows(context), rows)


def open_tables(context: Context, tables: Mapping[str, Rows]) -> dict[str, Opened]:
    """Open the rows that feature holders have sealed, for the rows of the own table.

    Args:
        context: The label holder's context.
        tables: Kind and format of each holder's rows.

    Returns:
        Opened rows by holder; with shares a row opens only if all holders have the person.

    Raises:
        SetupError: Keys or versions of the parties differ.
        Rejected: An answer or a table is malformed.
    """
    session = session_of(context)
    holders = context.federation.feature_holders
    points = {holder: _points(context, session, holder) for holder in holders}
    count, scratch = session.rows + 1, context.home.scratch
    sharings = (
        zero_shares.Sharings(scratch, count, len(holders))
        if context.federation.has_shares
        else None
    )
    for at, holder in enumerate(holders if sharings else ()):
        assert sharings is not None
        laid = context.receive("shares", holder)
        people = ((m, p) for m, p, _ in _people(session, points[holder], None))
        layout = layout_of(laid)
        sharings.add(at, people, layout.nonce, laid.parts, partial(_share_table, laid))
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
        opened = sealing.open_rows(
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


def _share_table(laid: Artifact, number: int) -> zero_shares.Layout:
    layout = layout_of(laid)
    content = laid.part(number, layout.width)
    return zero_shares.Layout(content, layout.numbers[number], layout.keys[number])


def _people(
    session: Session, points: np.ndarray, zeros: np.ndarray | None
) -> Iterator[sealing.Keyed]:
    for messages, rows in session.everybody():
        yield messages, points[rows], None if zeros is None else zeros[rows]


def _points(context: Context, session: Session, holder: str) -> np.ndarray:
    """Return points of all rows under a holder's exponent, cached or new, uint8, (n + 1, 32)."""
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
    # The canary is in every query: its answer shows whether the holder's key has changed.
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
    """Yield requested rows with their unblinded points, in the order of the query."""
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
            del points  # Free memory before the next part is read.

    end, failed = 0, False
    try:
        # All other parties wait for this.
        engine = session.engine.spread(len(places))
        for points in oprf.unblind(engine, session.exponent, pieces(), len(places), holder):
            begin, end = end, end + len(points)
            yield places[begin:end], {"": points}
    except ValueError:
        failed = True
    if failed:
        raise Rejected("malformed", f"The answer of {holder} holds a point of small order.")


def opened_table(holder: str) -> str:
    """Return the name of the table of a feature holder's opened rows, in the common order.

    Args:
        holder: Name of the feature holder.
    """
    return f"opened-{holder}"


def members_table(holder: str) -> str:
    """Return the name of the table of a feature holder's members, in the common order.

    It exists with ``overlap: left``.

    Args:
        holder: Name of the feature holder.
    """
    return f"members-{holder}"

"""The sealed exchange within a run: sessions, messages, keys and points."""

import logging
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import compress
from pathlib import Path

import numpy as np
import polars as pl

from opboost_ops.config.site import Site
from opboost_ops.errors import SetupError
from opboost_ops.exchange.sealed import month_keys, oprf, zero_shares
from opboost_ops.exchange.sealed.engine import BLOCK, Engine, processors
from opboost_ops.exchange.sealed.ids import CANARY, IdEncoder
from opboost_ops.exchange.sealed.month_keys import PointCache, delete_expired, month_key
from opboost_ops.exchange.sealed.sealing import ContentHash
from opboost_ops.mechanisms import noise
from opboost_ops.pipeline.inputs import raw_table
from opboost_ops.pipeline.inputs.raw_blocks import unchanged_blocks
from opboost_ops.pipeline.stage import Context, Home
from opboost_ops.tables.spill.arrays import Scratch, release_memory, slices

#: Document in the home about the set of the party's IDs.
_PEOPLE = "psi_people"

#: Folder in a federation's home with the cached points of a month.
POINTS = "points"

#: Document in the home that records that the party has begun the run in its month.
EPOCH = "psi_epoch"

#: People of an in-memory table whose hashes and pads are computed at once, to fit CPU caches.
_FEW = 1 << 13

_LOG = logging.getLogger("opboost_ops")


@dataclass(frozen=True)
class Session:
    """One party's side of a run's oblivious pseudorandom function (OPRF) exchange.

    Attributes:
        rows: Number of rows of its table.
        messages: Yields one message per row, in table order, block by block.
        people: Digest of the set of its IDs, at a party with shares.
        seed: The session's own seed, derived from the party's secret, the run, the plan and the
            set of its IDs: a retry produces the same bytes, while no two runs, nor one run with
            two tables, share it.
        exponent: Seed of its exponent: its key of the month, the federation and the label holder.
        place: Federation, run and plan, from which the run's nonces are derived.
        engine: Multiplies its points.
        cache: Returns the cached points under a feature holder's exponent.
        forget_blocks: Deletes finished blocks of points, after they were cached or sent.
    """

    rows: int
    messages: Callable[[], Iterator[list[bytes]]]
    people: bytes
    seed: bytes
    exponent: bytes
    place: str
    engine: Engine
    cache: Callable[[str], PointCache]
    forget_blocks: Callable[[], None]

    def everybody(self) -> Iterator[tuple[list[bytes], slice]]:
        """Yield the messages of all people in blocks, with their rows; the canary's is last."""
        end = 0
        for messages in self.messages():
            begin, end = end, end + len(messages)
            yield messages, slice(begin, end)
            release_memory()
        yield [CANARY], slice(self.rows, self.rows + 1)

    def chosen(self, wanted: np.ndarray) -> Iterator[tuple[list[bytes], slice]]:
        """Yield blocks like `everybody`, with messages of selected people only.

        Args:
            wanted: Selected people, bool, shape (rows + 1,).
        """
        for messages, rows in self.everybody():
            yield list(compress(messages, wanted[rows].tolist())), rows


def session_of(context: Context) -> Session:
    """Return a party's side of the run's OPRF exchange.

    Raises:
        ContractError: The table is not the one that was checked, an ID is missing or has several
            forms, or by this party's clock it is not the plan's month.
    """
    raw_table.require_unchanged(context)
    month = _require_month(context)
    table = context.home.json("table")
    if not context.home.has(_PEOPLE) or context.home.json(_PEOPLE)["table"] != table["sha256"]:
        content = {"table": table["sha256"], "people": _people_digest(context)}
        context.home.write_json(_PEOPLE, content)
    federation = context.federation
    digest = bytes.fromhex(context.home.json(_PEOPLE)["people"])
    seed = noise.run_seed(
        context.site.read_secret(),
        federation.name,
        context.run,
        b"psi:" + context.plan.encode() + digest,
    )
    key = month_key(context.site.month_keys, month)
    engine = Engine(
        context.site.alignment_processes or processors(), _Blocks(context.home), _progress(context)
    )

    def points_of(holder: str) -> PointCache:
        return point_cache(context.site, federation.name, month, holder, context.home.scratch)

    return Session(
        table["rows"],
        _repeatable(lambda: _messages(context), context.home.scratch.holds(table["rows"])),
        digest,
        seed,
        # A separate exponent per federation: answers in one are useless in another.
        noise.keyed_by(key, f"psi:exponent:{federation.name}:{federation.label_holder}"),
        f"{federation.name}/{context.run}/{context.plan}",
        engine,
        points_of,
        lambda: shutil.rmtree(context.home.folder / _Blocks.FOLDER, ignore_errors=True),
    )


def point_cache(
    site: Site, federation: str, month: str, holder: str, scratch: Scratch
) -> PointCache:
    """Return a party's file of cached points of a month.

    Args:
        site: The party's site.
        federation: Name of the federation.
        month: The month, such as ``2026-11``.
        holder: The feature holder whose exponent the points have; ``own-`` and the label holder's
            name for the party's own exponent.
        scratch: Holds people on disk if they are too many for memory.
    """
    key = noise.keyed_by(month_key(site.month_keys, month), f"psi:cache:{federation}:{holder}")
    file = site.home / federation / POINTS / f"{month}-{holder}.points"
    return PointCache(file, key, scratch)


def _require_month(context: Context) -> str:
    """Require that the plan's month is the current one, or that the run has already begun in it.

    Keys and points of past months are deleted here.
    """
    now = month_keys.now()
    for folder in (context.site.month_keys, context.lasting.folder / POINTS):
        delete_expired(folder, now)
    month = context.acceptance.plan.epoch
    begun = context.home.has(EPOCH)
    gone = not (context.site.month_keys / f"{month}.key").exists()
    if month is None or not ((begun and not gone) or month_keys.may_begin(month, now)):
        raise SetupError(
            f"The run is of the month {month}, which by the clock of {context.party} is over, or "
            "has not begun.",
            "Compare the clocks of the parties, and trigger a new run.",
        )
    if not begun:
        context.home.write_json(EPOCH, {"epoch": month})
    return month


def _repeatable(
    read: Callable[[], Iterator[list[bytes]]], in_memory: bool
) -> Callable[[], Iterator[list[bytes]]]:
    """Return a function that yields the same messages at each call; small tables are read once."""
    if not in_memory:
        return read
    # Stored in Polars buffers: a list of bytes takes five times the memory.
    pieces = cache(lambda: [pl.Series(messages, dtype=pl.Binary) for messages in read()])
    return lambda: (
        piece[some].to_list() for piece in pieces() for some in slices(len(piece), _FEW)
    )


def _messages(context: Context) -> Iterator[list[bytes]]:
    encoder = IdEncoder(context.federation.id.type)
    return map(encoder.messages, _ids(context))


def _ids(context: Context) -> Iterator[list[object]]:
    """Yield the IDs of the table in batches of the size that is hashed at once."""
    column = context.federation.id.column
    for _, block in unchanged_blocks(context, [column]):
        ids = block.get_column(column)
        for some in slices(len(ids), BLOCK):
            yield ids[some].to_list()


def _people_digest(context: Context) -> str:
    """Return a digest of the set of IDs if shares need it, else of the empty set; check all IDs."""
    has_shares = context.federation.has_shares and context.party != context.federation.label_holder
    encoder = IdEncoder(context.federation.id.type)
    people = ContentHash(noise.keyed_by(context.site.read_secret(), "psi:people"))
    for ids in _ids(context):
        messages = encoder.messages(ids)
        if has_shares:
            people.add(messages)
    encoder.require_canonical()
    return people.digest().hex()


@dataclass(frozen=True)
class _Blocks:
    """Finished blocks of points in the party's home, until their stage has ended."""

    FOLDER = "psi"

    home: Home

    def get(self, name: str) -> bytes | None:
        path = self._path(name)
        return path.read_bytes() if path.is_file() else None

    def put(self, name: str, content: bytes) -> None:
        self.home.write(f"{self.FOLDER}/{name}", content)

    def _path(self, name: str) -> Path:
        return self.home.folder / self.FOLDER / name


def _progress(context: Context) -> Callable[[str, int, int], None]:
    def tell(role: str, done: int, of: int) -> None:
        _LOG.info("%s of %s: %s of %s points", role, context.party, f"{done:,}", f"{of:,}")
        context.tell(f"points ({role})", done, of)

    return tell


def own_points(context: Context, session: Session) -> np.ndarray:
    """Return the points of all people, the canary's last, uint8, shape (rows + 1, 32).

    Args:
        context: The feature holder's context.
        session: Its session.

    Raises:
        ContractError: The table was rewritten meanwhile.
    """
    # The exponent depends on the label holder.
    count, cache = session.rows + 1, session.cache(f"own-{context.federation.label_holder}")
    cached, points = cache.find((messages for messages, _ in session.everybody()), count)
    unknown = ~cached
    missing = np.flatnonzero(unknown)
    if len(missing):
        tag = oprf.domain_tag(context.federation.name)
        hashed = session.engine.hash_and_multiply(
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
    """Return the keys that a feature holder shares with each other feature holder in this run."""
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

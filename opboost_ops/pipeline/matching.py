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
from opboost_ops.exchange.sealed.ids import CANARY, Reader
from opboost_ops.exchange.sealed.month_keys import PointCache, delete_expired, month_key
from opboost_ops.exchange.sealed.sealing import ContentHash
from opboost_ops.mechanisms import noise
from opboost_ops.pipeline.inputs import raw_table
from opboost_ops.pipeline.inputs.raw_blocks import unchanged_blocks
from opboost_ops.pipeline.stage import Context, Home
from opboost_ops.tables.spill.arrays import Scratch, release_memory, slices

#: Name of what a party keeps at home of the set of its IDs.
_PEOPLE = "psi_people"

#: Folder of a federation's home with points that are known for a month.
POINTS = "points"

#: Name of what a party keeps at home once it has begun a run in its month.
EPOCH = "psi_epoch"

#: People of a held table whose hashes and pads are made at once, in a processor's caches.
_FEW = 1 << 13

_LOG = logging.getLogger("opboost_ops")

#: Whose points a cache holds that is not named by another party.
OWN = "own"


@dataclass(frozen=True)
class Session:
    """One party's side of one run's oblivious exchange.

    Attributes:
        rows: Of its table.
        messages: Gives one per row, in the order of its table, block by block.
        people: What tells the set of its IDs from any other, at a party with shares.
        seed: What is the session's own: it follows from the party's secret, the run, the plan, and
            the set of its IDs. So a retry makes the same bytes, and no two runs, nor one run with
            two tables, have it in common.
        exponent: What its exponent follows from: its key of the month, federation, label holder.
        place: Federation, run and plan: what nonces of the run follow from.
        engine: Multiplies its points.
        cache: Gives the points of one feature holder's exponent that are known.
        forget_blocks: Deletes finished blocks of points, once they are in a cache or were sent.
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
        """Messages of all people, piece by piece, and their rows; the canary's is the last."""
        end = 0
        for messages in self.messages():
            begin, end = end, end + len(messages)
            yield messages, slice(begin, end)
            release_memory()
        yield [CANARY], slice(self.rows, self.rows + 1)

    def chosen(self, wanted: np.ndarray) -> Iterator[tuple[list[bytes], slice]]:
        """The same, with messages of some people only.

        Args:
            wanted: Whose, bool, shape (rows + 1,).
        """
        for messages, rows in self.everybody():
            yield list(compress(messages, wanted[rows].tolist())), rows


def session_of(context: Context) -> Session:
    """A party's side of the run's oblivious exchange.

    Raises:
        ContractError: The table is not the one that was checked, or an ID is missing, or could be
            written otherwise; or by this party's clock it is not the plan's month.
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
        context.site.noise_secret(),
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
        # Of its own for each federation: an answer in one is none in another.
        noise.keyed_by(key, f"psi:exponent:{federation.name}:{federation.label_holder}"),
        f"{federation.name}/{context.run}/{context.plan}",
        engine,
        points_of,
        lambda: shutil.rmtree(context.home.folder / _Blocks.FOLDER, ignore_errors=True),
    )


def point_cache(
    site: Site, federation: str, month: str, holder: str, scratch: Scratch
) -> PointCache:
    """A party's file of known points of a month.

    Args:
        site: The party's.
        federation: Name of the federation.
        month: As in ``2026-11``.
        holder: Whose exponent it is.
        scratch: Where people wait, if they are more than it holds.
    """
    key = noise.keyed_by(month_key(site.month_keys, month), f"psi:cache:{federation}:{holder}")
    file = site.home / federation / POINTS / f"{month}-{holder}.points"
    return PointCache(file, key, scratch)


def _require_month(context: Context) -> str:
    """Refuse to begin a run of another month than this clock's; what has begun may end.

    Keys and points of months that are over are deleted here.
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
    """The same messages at each call; of a table that is held in memory, read once."""
    if not in_memory:
        return read
    # As one buffer: a list of bytes takes five times the memory.
    pieces = cache(lambda: [pl.Series(messages, dtype=pl.Binary) for messages in read()])
    return lambda: (
        piece[some].to_list() for piece in pieces() for some in slices(len(piece), _FEW)
    )


def _messages(context: Context) -> Iterator[list[bytes]]:
    reader = Reader(context.federation.id.type)
    return map(reader.messages, _ids(context))


def _ids(context: Context) -> Iterator[list[object]]:
    """The IDs of the table, no more at a time than are hashed at a time."""
    column = context.federation.id.column
    for _, block in unchanged_blocks(context, [column]):
        ids = block.get_column(column)
        for some in slices(len(ids), BLOCK):
            yield ids[some].to_list()


def _people_digest(context: Context) -> str:
    """A digest that tells the set of IDs from any other where shares need it, else of no ID."""
    has_shares = context.federation.has_shares and context.party != context.federation.label_holder
    reader = Reader(context.federation.id.type)
    people = ContentHash(noise.keyed_by(context.site.noise_secret(), "psi:people"))
    for ids in _ids(context):
        messages = reader.messages(ids)
        if has_shares:
            people.add(messages)
    reader.require_one_form()
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

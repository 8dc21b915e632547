"""What a party's stages of private alignment share: its messages, its keys, its engine."""

import hashlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from opboost_ops.alignment import epochs, zero_shares
from opboost_ops.alignment.engine import BLOCK, Engine, processors
from opboost_ops.alignment.ids import Reader
from opboost_ops.alignment.tags import salt_of
from opboost_ops.errors import ContractError
from opboost_ops.mechanisms import noise
from opboost_ops.scratch.arrays import slices
from opboost_ops.stages import raw_table
from opboost_ops.stages.raw_blocks import blocks
from opboost_ops.stages.stage import Context, Home

_LOG = logging.getLogger("opboost_ops")


#: Name of what a party keeps at home of the set of its IDs.
_PEOPLE = "psi_people"

#: Name of what a party keeps at home once it has begun a run in its epoch.
_EPOCH = "psi_epoch"

#: Bytes of the sum that tells sets of IDs apart.
_SUM = 64


@dataclass(frozen=True)
class Session:
    """One party's side of one run's private alignment.

    Attributes:
        rows: Of its table.
        messages: Gives one a row, in the order of its table, block by block.
        seed: What is the session's own: it follows from the party's secret, the run, the plan, and
            the set of its IDs. So a retry makes the same bytes, and no two runs, nor one run with
            two tables, have it in common.
        exponents: What exponents follow from: the same, or where they stay for an epoch, the
            party's secret, the epoch, and the label holder's name.
        salt: Of all tags; of this run alone in any case.
        engine: Multiplies its points.
    """

    rows: int
    messages: Callable[[], Iterator[list[bytes]]]
    seed: bytes
    exponents: bytes
    salt: bytes
    engine: Engine


def session_of(context: Context) -> Session:
    """A party's side of the run's private alignment.

    Raises:
        ContractError: The table is not the one that was checked, or an ID is missing, or could be
            written otherwise; or by this party's clock it is not the plan's epoch.
    """
    require_unchanged(context)
    _require_epoch(context)
    table = context.home.json("table")["sha256"]
    if not context.home.has(_PEOPLE) or context.home.json(_PEOPLE)["table"] != table:
        context.home.write_json(_PEOPLE, {"table": table, **_people(context)})
    people = context.home.json(_PEOPLE)
    seed = noise.run_seed(
        context.site.noise_secret(),
        context.federation.name,
        context.run,
        b"psi:" + context.plan.encode() + bytes.fromhex(people["people"]),
    )
    engine = Engine(
        context.site.alignment_processes or processors(), _Blocks(context.home), _told(context)
    )
    return Session(
        people["rows"],
        lambda: _messages(context, people["rows"]),
        seed,
        _exponents(context, seed),
        salt_of(context.plan),
        engine,
    )


def _exponents(context: Context, seed: bytes) -> bytes:
    if context.epoch is None:
        return seed
    federation = context.federation
    return noise.run_seed(
        context.site.noise_secret(),
        federation.name,
        context.epoch,
        b"psi-epoch:" + federation.label_holder.encode(),
    )


def _require_epoch(context: Context) -> None:
    """Refuse to begin a run of another epoch than this clock's; what has begun may end."""
    if context.epoch is None or context.home.has(_EPOCH):
        return
    if not epochs.may_begin(context.epoch, epochs.now()):
        raise ContractError(
            f"The run is of the epoch {context.epoch}, which by the clock of {context.party} is "
            "over, or has not begun.",
            "Compare the clocks of the parties, and trigger a new run.",
        )
    context.home.write_json(_EPOCH, {"epoch": context.epoch})


def _messages(context: Context, rows: int) -> Iterator[list[bytes]]:
    reader = Reader(context.federation.id.type)
    for ids in _ids(context):
        found = reader.messages(ids)
        rows -= len(found)
        if rows < 0:
            break
        yield found
    if rows:
        raise changed(context)


def _ids(context: Context) -> Iterator[list[object]]:
    """The IDs of the table, no more at a time than are hashed at a time."""
    column = context.federation.id.column
    for block in blocks(context, [column]):
        ids = block.get_column(column)
        for some in slices(len(ids), BLOCK):
            yield ids[some].to_list()


def _people(context: Context) -> dict[str, str | int]:
    """How many IDs there are, and what tells their set from any other, in whatever order.

    The sum of a keyed hash of each, modulo 2^512 (Clarke et al. 2003, MSet-Add-Hash).
    """
    reader = Reader(context.federation.id.type)
    key = noise.keyed_by(context.site.noise_secret(), "psi:people")
    copy = hashlib.blake2b(key=key, digest_size=_SUM).copy
    total = rows = 0
    for ids in _ids(context):
        for message in reader.messages(ids):
            digest = copy()
            digest.update(message)
            total += int.from_bytes(digest.digest(), "little")
            rows += 1
    reader.require_one_form()
    return {"people": (total % (1 << 8 * _SUM)).to_bytes(_SUM, "little").hex(), "rows": rows}


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


def require_unchanged(context: Context) -> None:
    """Refuse to go on with another table than the one that was checked.

    Raises:
        ContractError: It was rewritten.
    """
    if raw_table.fingerprint(context) != context.home.json("table")["sha256"]:
        raise changed(context)


def changed(context: Context) -> ContractError:
    """The error for a table that was rewritten during the run."""
    return ContractError(
        f"The table of {context.party} was rewritten while the run was using it.",
        "Trigger a new run when the job that writes it has ended.",
    )


@dataclass(frozen=True)
class _Blocks:
    """Finished blocks of points in the party's home."""

    home: Home

    def get(self, name: str) -> bytes | None:
        path = self._path(name)
        return path.read_bytes() if path.is_file() else None

    def put(self, name: str, content: bytes) -> None:
        self.home.write(f"psi/{name}", content)

    def _path(self, name: str) -> Path:
        return self.home.folder / "psi" / name


def _told(context: Context) -> Callable[[str, int, int], None]:
    def tell(role: str, done: int, of: int) -> None:
        _LOG.info("%s of %s: %s of %s points", role, context.party, f"{done:,}", f"{of:,}")
        context.tell(f"points ({role})", done, of)

    return tell

"""What a party's stages of private alignment share: its messages, its keys, its engine."""

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from opboost_ops.alignment import zero_shares
from opboost_ops.alignment.engine import Engine, processors
from opboost_ops.alignment.ids import messages
from opboost_ops.errors import ContractError
from opboost_ops.mechanisms import noise
from opboost_ops.stages import raw_table
from opboost_ops.stages.raw_blocks import blocks
from opboost_ops.stages.stage import Context, Home

_LOG = logging.getLogger("opboost_ops")


@dataclass(frozen=True)
class Session:
    """One party's side of one run's private alignment.

    Attributes:
        messages: One a row, in the order of its table.
        seed: What its exponents of this session follow from: its secret, the run, the plan, and
            the set of its IDs. So a retry makes the same bytes, and no two runs, nor one run with
            two tables, have an exponent in common.
        engine: Multiplies its points.
    """

    messages: list[bytes]
    seed: bytes
    engine: Engine


def session_of(context: Context) -> Session:
    """A party's side of the run's private alignment.

    Raises:
        ContractError: The table is not the one that was checked, or an ID is missing, is there
            twice, or could be written otherwise.
    """
    require_unchanged(context)
    identity = context.federation.id
    ids: list[object] = []
    for block in blocks(context, [identity.column]):
        ids += block.get_column(identity.column).to_list()
    found = messages(ids, identity.type)
    del ids
    people = hashlib.blake2b(digest_size=32)
    for message in sorted(found):
        people.update(len(message).to_bytes(4, "big") + message)
    seed = noise.run_seed(
        context.site.noise_secret(),
        context.federation.name,
        context.run,
        b"psi:" + context.plan.encode() + people.digest(),
    )
    engine = Engine(
        context.site.alignment_processes or processors(), _Blocks(context.home), _told(context)
    )
    return Session(found, seed, engine)


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

    return tell

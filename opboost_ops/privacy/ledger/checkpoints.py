"""Checkpoints: a number and a digest of a party's state, signed, which go with what it publishes.

Towards each receiver in a federation a party's runs are numbered, and each number has a digest: an
HMAC under a key of the party over the digest before it and the artifacts that were charged towards
this receiver in this federation since then. Receivers keep the latest one and return it, so that a
party whose state was rolled back meets its own signature on a number that it does not know. A
receiver learns nothing of other federations, of draws, refusals or the forgotten.
"""

import hashlib
import hmac
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from pydantic import Field

from opboost_ops.config.columns import canonical
from opboost_ops.config.schema import Record
from opboost_ops.privacy.ledger.database import Records
from opboost_ops.privacy.ledger.tables import COUNTED, table

_OWN = table(
    "checkpoints",
    {"id": COUNTED},
    federation=160,
    receiver=160,
    number=int,
    # Numbers above this one are covered by this row; all but one row in recovered states.
    after=int,
    run=40,
    head=64,
    entry=int,
    seen=str,
)
_RECEIPTS = table("receipts", {"federation": 160, "party": 160, "receiver": 160}, checkpoint=str)

#: What the first digest follows from.
GENESIS = "0" * 64


class Checkpoint(Record):
    """Where a party's state stood when it took part in a run.

    Attributes:
        number: Of the run, among those of this federation towards this receiver.
        head: HMAC over the artifacts before it, 64 hex digits.
        signature: The party's, over both and where they belong, 128 hex digits; empty in those of
            0.2.0, which count only inside a manifest that the party has signed.
    """

    number: int = Field(ge=1, lt=2**63)
    head: str = Field(pattern=r"^[0-9a-f]{64}$")
    signature: str = Field(default="", pattern=r"^([0-9a-f]{128})?$")

    def plain(self) -> dict[str, Any]:
        """Its JSON value, without an empty signature."""
        value = self.model_dump(mode="json")
        return value if self.signature else {k: v for k, v in value.items() if k != "signature"}


def signed_bytes(checkpoint: Checkpoint, party: str, federation: str, receiver: str) -> bytes:
    """The bytes that a party signs.

    Args:
        checkpoint: Without or with its signature.
        party: Whose.
        federation: The federation's name.
        receiver: Towards whom it was given.
    """
    value = {"party": party, "federation": federation, "receiver": receiver}
    return canonical({**value, "number": checkpoint.number, "head": checkpoint.head})


class Standing(Record):
    """A party's state as a run's manifests carry it.

    Attributes:
        head: Where it stood.
        seen: By party, the latest checkpoint that it has received from it.
    """

    head: Checkpoint
    seen: Mapping[str, Checkpoint] = Field(default_factory=dict)


class Checkpoints(Records):
    """The checkpoints that a party has given, and the latest that it has received."""

    def take(
        self,
        key: bytes,
        federation: str,
        receiver: str,
        run: str,
        kinds: Collection[str],
        received: Mapping[str, Checkpoint],
    ) -> Standing:
        """Where the state stands in a run, not signed: the next number, or at a retry the same.

        Args:
            key: The party's, of this federation and receiver.
            federation: The federation's name.
            receiver: Who will see it.
            run: The run's id.
            kinds: Kinds of artifact: entries of others are no part of it.
            received: By party, the latest checkpoint from it; a retry repeats the first ones.
        """
        with self._database.writing() as connection:
            existing = self.of_run(federation, receiver, run)
            if existing is not None:
                return existing
            last = self._database.first(_last(federation, receiver))
            number, head, entry = (last.number, last.head, last.entry) if last else (0, GENESIS, 0)
            number += 1
            mac = hmac.new(key, f"{head}\n{number}\n{run}".encode(), hashlib.sha256)
            # Manifests know checkpoints, and the DAG processor reads ids of runs: nothing heavy.
            from opboost_ops.privacy.ledger.entries import entries_after

            lines = entries_after(connection, entry)
            for _, release in lines:
                to = (release.federation, release.receiver)
                if to == (federation, receiver) and release.kind in kinds:
                    mac.update(f"\n{release.run}/{release.kind}/{release.artifact}".encode())
            standing = Standing(head=Checkpoint(number=number, head=mac.hexdigest()), seen=received)
            self.enter(
                federation, receiver, run, standing, number - 1, lines[-1][0] if lines else entry
            )
        return standing

    def enter(
        self,
        federation: str,
        receiver: str,
        run: str,
        standing: Standing,
        after: int,
        entry: int = 0,
    ) -> None:
        """Write down a checkpoint that was given.

        Args:
            federation: The federation's name.
            receiver: Who sees it.
            run: The run's id; empty in a state that was recovered.
            standing: The checkpoint, and those received before it.
            after: The number before those that it covers.
            entry: The last ledger entry that it was made of.
        """
        row = {"federation": federation, "receiver": receiver, "run": run, "after": after}
        row |= {"number": standing.head.number, "head": standing.head.head, "entry": entry}
        received = {party: checkpoint.plain() for party, checkpoint in standing.seen.items()}
        row["seen"] = json.dumps(received, sort_keys=True)
        self._database.execute(sa.insert(_OWN).values(row))

    def of_run(self, federation: str, receiver: str, run: str) -> Standing | None:
        """A run's standing, not signed; None if it has given nothing yet."""
        here = _OWN.c.federation == federation, _OWN.c.receiver == receiver, _OWN.c.run == run
        row = self._database.first(sa.select(_OWN).where(*here))
        if row is None:
            return None
        head = Checkpoint(number=row.number, head=row.head)
        return Standing(head=head, seen=json.loads(row.seen))

    def last_number(self, federation: str, receiver: str) -> int:
        """The highest number that was given; 0 if there is none."""
        row = self._database.first(_last(federation, receiver))
        return row.number if row is not None else 0

    def runs(self, federation: str) -> list[str]:
        """The runs of a federation in which a checkpoint was given, the last one first."""
        query = sa.select(_OWN.c.run).where(_OWN.c.federation == federation)
        return self._database.column(query.order_by(_OWN.c.id.desc()))

    def covers(self, federation: str, receiver: str, number: int) -> bool:
        """True if a recovery has charged all that a number may stand for."""
        query = sa.select(_OWN.c.id).where(
            _OWN.c.federation == federation,
            _OWN.c.receiver == receiver,
            _OWN.c.run == "",
            _OWN.c.after < number,
            _OWN.c.number >= number,
        )
        return self._database.first(query.limit(1)) is not None

    def knows(self, federation: str, receiver: str, checkpoint: Checkpoint) -> bool:
        """True if a checkpoint is among those given, or covered by a recovery.

        Args:
            federation: The federation's name.
            receiver: Towards whom it was given.
            checkpoint: Signed by the party.
        """
        return not self.unknown(federation, [(receiver, checkpoint)])

    def unknown(
        self, federation: str, signed: Sequence[tuple[str, Checkpoint]]
    ) -> list[tuple[str, Checkpoint]]:
        """Which of some checkpoints `knows` would not know.

        Args:
            federation: The federation's name.
            signed: Receivers and checkpoints, of a run or a few.
        """
        numbers = {checkpoint.number for _, checkpoint in signed}
        query = sa.select(_OWN.c.receiver, _OWN.c.number, _OWN.c.head).where(
            _OWN.c.federation == federation, _OWN.c.number.in_(sorted(numbers))
        )
        issued = {tuple(row) for row in self._database.rows(query)}
        return [
            (receiver, checkpoint)
            for receiver, checkpoint in signed
            if (receiver, checkpoint.number, checkpoint.head) not in issued
            and not self.covers(federation, receiver, checkpoint.number)
        ]

    def received(self, federation: str, receiver: str) -> dict[str, Checkpoint]:
        """By party, the latest checkpoint that was received from it.

        Args:
            federation: The federation's name.
            receiver: Towards whom they were given.
        """
        query = sa.select(_RECEIPTS.c.party, _RECEIPTS.c.checkpoint).where(
            _RECEIPTS.c.federation == federation, _RECEIPTS.c.receiver == receiver
        )
        rows = self._database.rows(query)
        return {party: Checkpoint(**json.loads(text)) for party, text in rows}

    def receive(self, federation: str, party: str, receiver: str, checkpoint: Checkpoint) -> None:
        """Keep another party's checkpoint if it is the latest; its signature is verified.

        Args:
            federation: The federation's name.
            party: Whose.
            receiver: Towards whom it was given.
            checkpoint: The checkpoint.
        """
        before = self.received(federation, receiver).get(party)
        if before is not None and before.number >= checkpoint.number:
            return
        row = {"federation": federation, "party": party, "receiver": receiver}
        here = [_RECEIPTS.c[name] == value for name, value in row.items()]
        text = json.dumps(checkpoint.plain(), sort_keys=True)
        new = sa.insert(_RECEIPTS).values({**row, "checkpoint": text})
        self._database.execute(sa.delete(_RECEIPTS).where(*here), new)


def _last(federation: str, receiver: str) -> sa.Select[Any]:
    return (
        sa.select(_OWN.c.number, _OWN.c.head, _OWN.c.entry)
        .where(_OWN.c.federation == federation, _OWN.c.receiver == receiver)
        .order_by(_OWN.c.number.desc(), _OWN.c.id.desc())
        .limit(1)
    )

"""Checkpoints: signed numbers and digests of a party's state, published with its artifacts.

For each receiver in a federation, a party numbers its runs, and each number has a digest: an HMAC
under a key of the party over the previous digest and the artifacts charged for this receiver since
then. Receivers store the latest checkpoint and return it, so a party whose state was rolled back
receives its own signature on a number that it does not know. A receiver learns nothing about other
federations, draws, refusals or forgotten people.
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
    # This row covers the numbers above this one; more than one number only after a recovery.
    after=int,
    run=40,
    head=64,
    entry=int,
    seen=str,
)
_RECEIPTS = table("receipts", {"federation": 160, "party": 160, "receiver": 160}, checkpoint=str)

#: Predecessor of the first digest.
GENESIS = "0" * 64


class Checkpoint(Record):
    """A party's state when it took part in a run.

    Attributes:
        number: Serial number of the run for this federation and receiver.
        head: HMAC over all earlier artifacts, 64 hex digits.
        signature: The party's signature over number, head and their context, 128 hex digits; empty
            in checkpoints of 0.2.0, which count only inside a manifest signed by the party.
    """

    number: int = Field(ge=1, lt=2**63)
    head: str = Field(pattern=r"^[0-9a-f]{64}$")
    signature: str = Field(default="", pattern=r"^([0-9a-f]{128})?$")

    def plain(self) -> dict[str, Any]:
        """Return the JSON value, without an empty signature."""
        value = self.model_dump(mode="json")
        return value if self.signature else {k: v for k, v in value.items() if k != "signature"}


def signed_bytes(checkpoint: Checkpoint, party: str, federation: str, receiver: str) -> bytes:
    """Return the bytes that a party signs.

    Args:
        checkpoint: With or without its signature.
        party: The party that issues it.
        federation: Name of the federation.
        receiver: The receiver it was issued to.
    """
    value = {"party": party, "federation": federation, "receiver": receiver}
    return canonical({**value, "number": checkpoint.number, "head": checkpoint.head})


class Standing(Record):
    """A party's state in the manifests of a run.

    Attributes:
        head: The party's own checkpoint.
        seen: The latest checkpoint received from each party.
    """

    head: Checkpoint
    seen: Mapping[str, Checkpoint] = Field(default_factory=dict)


class Checkpoints(Records):
    """The checkpoints that a party issued, and the latest ones that it received."""

    def take(
        self,
        key: bytes,
        federation: str,
        receiver: str,
        run: str,
        kinds: Collection[str],
        received: Mapping[str, Checkpoint],
    ) -> Standing:
        """Return a run's unsigned checkpoint: the next number, or the same one in a retry.

        Args:
            key: The party's key for this federation and receiver.
            federation: Name of the federation.
            receiver: The receiver.
            run: ID of the run.
            kinds: Kinds of artifacts to include; entries of other kinds are ignored.
            received: The latest checkpoint from each party; a retry repeats the first ones.
        """
        with self._database.writing() as connection:
            existing = self.of_run(federation, receiver, run)
            if existing is not None:
                return existing
            last = self._database.first(_last(federation, receiver))
            number, head, entry = (last.number, last.head, last.entry) if last else (0, GENESIS, 0)
            number += 1
            mac = hmac.new(key, f"{head}\n{number}\n{run}".encode(), hashlib.sha256)
            # The DAG processor imports this module through manifests, so it must import quickly.
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
        """Record an issued checkpoint.

        Args:
            federation: Name of the federation.
            receiver: The receiver.
            run: ID of the run; empty in a recovered state.
            standing: The checkpoint, and those received before it.
            after: The number before the first one that it covers.
            entry: ID of the last ledger entry in it.
        """
        row = {"federation": federation, "receiver": receiver, "run": run, "after": after}
        row |= {"number": standing.head.number, "head": standing.head.head, "entry": entry}
        received = {party: checkpoint.plain() for party, checkpoint in standing.seen.items()}
        row["seen"] = json.dumps(received, sort_keys=True)
        self._database.execute(sa.insert(_OWN).values(row))

    def of_run(self, federation: str, receiver: str, run: str) -> Standing | None:
        """Return a run's unsigned checkpoint; None if it has issued none."""
        of_run = _OWN.c.federation == federation, _OWN.c.receiver == receiver, _OWN.c.run == run
        row = self._database.first(sa.select(_OWN).where(*of_run))
        if row is None:
            return None
        head = Checkpoint(number=row.number, head=row.head)
        return Standing(head=head, seen=json.loads(row.seen))

    def last_number(self, federation: str, receiver: str) -> int:
        """Return the highest issued number; 0 if there is none."""
        row = self._database.first(_last(federation, receiver))
        return row.number if row is not None else 0

    def runs(self, federation: str) -> list[str]:
        """Return the runs of a federation in which a checkpoint was issued, latest first."""
        query = sa.select(_OWN.c.run).where(_OWN.c.federation == federation)
        return self._database.column(query.order_by(_OWN.c.id.desc()))

    def covers(self, federation: str, receiver: str, number: int) -> bool:
        """Return whether a recovery has charged everything that a number may stand for."""
        query = sa.select(_OWN.c.id).where(
            _OWN.c.federation == federation,
            _OWN.c.receiver == receiver,
            _OWN.c.run == "",
            _OWN.c.after < number,
            _OWN.c.number >= number,
        )
        return self._database.first(query.limit(1)) is not None

    def knows(self, federation: str, receiver: str, checkpoint: Checkpoint) -> bool:
        """Return whether a checkpoint was issued or is covered by a recovery.

        Args:
            federation: Name of the federation.
            receiver: The receiver it was issued to.
            checkpoint: A checkpoint signed by the party.
        """
        return not self.unknown(federation, [(receiver, checkpoint)])

    def unknown(
        self, federation: str, signed: Sequence[tuple[str, Checkpoint]]
    ) -> list[tuple[str, Checkpoint]]:
        """Return the checkpoints that `knows` rejects.

        Args:
            federation: Name of the federation.
            signed: Receivers and checkpoints of a few runs.
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
        """Return the latest checkpoint received from each party.

        Args:
            federation: Name of the federation.
            receiver: The receiver they were issued to.
        """
        query = sa.select(_RECEIPTS.c.party, _RECEIPTS.c.checkpoint).where(
            _RECEIPTS.c.federation == federation, _RECEIPTS.c.receiver == receiver
        )
        rows = self._database.rows(query)
        return {party: Checkpoint(**json.loads(text)) for party, text in rows}

    def latest(self) -> list[tuple[str, str, Checkpoint]]:
        """Return the latest issued checkpoint of each federation and receiver, in that order."""
        with self._database.reading() as connection:
            rows = connection.execute(sa.select(_OWN).order_by(_OWN.c.number, _OWN.c.id)).all()
        last = {(row.federation, row.receiver): row for row in rows}
        return [
            (*place, Checkpoint(number=row.number, head=row.head))
            for place, row in sorted(last.items())
        ]

    def returned(self, party: str) -> list[tuple[str, str, Checkpoint]]:
        """Return a party's checkpoints that `receive` has stored, as `latest` does."""
        rows = self._database.rows(sa.select(_RECEIPTS).where(_RECEIPTS.c.party == party))
        return [(r.federation, r.receiver, Checkpoint(**json.loads(r.checkpoint))) for r in rows]

    def receive(self, federation: str, party: str, receiver: str, checkpoint: Checkpoint) -> None:
        """Store another party's checkpoint, whose signature was verified, if it is the latest.

        Args:
            federation: Name of the federation.
            party: The party that issued it.
            receiver: The receiver it was issued to.
            checkpoint: The checkpoint.
        """
        before = self.received(federation, receiver).get(party)
        if before is not None and before.number >= checkpoint.number:
            return
        row = {"federation": federation, "party": party, "receiver": receiver}
        previous = [_RECEIPTS.c[name] == value for name, value in row.items()]
        text = json.dumps(checkpoint.plain(), sort_keys=True)
        new = sa.insert(_RECEIPTS).values({**row, "checkpoint": text})
        self._database.execute(sa.delete(_RECEIPTS).where(*previous), new)


def _last(federation: str, receiver: str) -> sa.Select[Any]:
    return (
        sa.select(_OWN.c.number, _OWN.c.head, _OWN.c.entry)
        .where(_OWN.c.federation == federation, _OWN.c.receiver == receiver)
        .order_by(_OWN.c.number.desc(), _OWN.c.id.desc())
        .limit(1)
    )

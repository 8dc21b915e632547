"""Read-only access to a party's database."""

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

#: An exact loss; a float only if infinite.
Loss = Fraction | float


class Release(NamedTuple):
    """A charged release of a raw column."""

    id: str
    kind: str  # ``values`` or ``edges``
    feature: str
    column: str  # of the party's own table
    receiver: str
    losses: Mapping[str, Any]  # loss curves by the name of the charge
    ended: str  # time of its end; empty while the release is open
    pins: str  # name of the pin file; empty if there is none
    digest: str  # of the pin file
    rows: int  # number of people in the pin file

    @property
    def loss(self) -> Loss:
        """The loss across the full range, of the value and the missing bit together."""
        return sum((full_range_loss(curve) for curve in self.losses.values()), Fraction(0))


class PartyState:
    """The content of a party's database; sqlite3.Error if the file is not one of this version."""

    def __init__(self, path: Path) -> None:
        address = f"{path.resolve().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True)) as database:
            self._read(database)

    def _read(self, database: sqlite3.Connection) -> None:
        def rows(query: str) -> list[Any]:
            return database.execute(query).fetchall()

        if rows("SELECT max(version) FROM schema") != [(1,)]:
            raise ValueError("another version")
        # The party's name and the fingerprint of its secret.
        self.party, self.secret = rows("SELECT party, secret FROM state")[0]
        # Agreements by digest, and the digests of those that were not withdrawn.
        agreements = rows("SELECT digest, content, withdrawn FROM agreements")
        self.agreements = {digest: json.loads(content) for digest, content, _ in agreements}
        self.in_force = {digest for digest, _, withdrawn in agreements if withdrawn is None}
        # Number, text and hash of each audit entry.
        self.audit = rows("SELECT number, entry, hash FROM audit ORDER BY number")
        # Ledger entries, each with its number.
        entries = rows("SELECT id, event FROM entries ORDER BY id")
        self.entries = [{**json.loads(event), "id": number} for number, event in entries]
        # Digests of committed artifacts, which are known to be published.
        self.commits = {artifact for (artifact,) in rows("SELECT artifact FROM commits")}
        releases = rows(
            'SELECT id, kind, feature, "column", receiver, losses, ended, pins, digest, rows '
            "FROM column_releases ORDER BY number"
        )
        self.releases = {r[0]: Release(*r)._replace(losses=json.loads(r[5])) for r in releases}
        # Federation and run of sessions of rounds that did not end.
        self.open_sessions = rows("SELECT federation, run FROM sessions WHERE ended_at IS NULL")
        # The release of each feature, by federation and run.
        recorded = rows("SELECT federation, run, releases FROM run_releases")
        self.run_releases = {(name, run): json.loads(releases) for name, run, releases in recorded}
        # Federation, receiver, number, preceding number, run, digest and last entry of checkpoints.
        checkpoint = 'federation, receiver, number, "after", run, head, entry'
        self.checkpoints = rows(f"SELECT {checkpoint} FROM checkpoints ORDER BY id")  # noqa: S608
        # Receiver, month, query and number of new people of each answered query.
        self.answered_queries = rows('SELECT receiver, epoch, "query", people FROM asked')
        # Keyed hashes of forgotten people.
        forgotten = rows("SELECT person FROM forgotten")
        self.forgotten = {bytes.fromhex(person) for (person,) in forgotten}


def full_range_loss(curve: Mapping[str, Any]) -> Loss:
    """The exact loss across the full range, which is the last of a curve and never negative."""
    loss = curve["loss"][-1]
    if loss != "inf" and not loss >= 0:
        raise ValueError("not a loss")
    return float("inf") if loss == "inf" else Fraction(loss)

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
    """The content of a party's database; ValueError if the file is not one of this version."""

    def __init__(self, path: Path) -> None:
        try:
            address = f"{path.resolve().as_uri()}?mode=ro"
            with closing(sqlite3.connect(address, uri=True)) as database:
                self._read(database)
        except sqlite3.Error:
            raise ValueError("not a database of this version") from None

    def _read(self, database: sqlite3.Connection) -> None:
        def rows(query: str) -> list[Any]:
            return database.execute(query).fetchall()

        if rows("SELECT max(version) FROM schema") != [(1,)]:
            raise ValueError("another version")
        # The party's name and the fingerprint of its secret.
        self.party, self.secret = rows("SELECT party, secret FROM state")[0]
        # Agreements by digest.
        self.agreements = {
            digest: json.loads(content)
            for digest, content in rows("SELECT digest, content FROM agreements")
        }
        # Number, text and hash of each audit entry.
        self.audit = rows("SELECT number, entry, hash FROM audit ORDER BY number")
        # Ledger entries.
        self.entries = [json.loads(event) for (event,) in rows("SELECT event FROM entries")]
        # Digests of committed artifacts, which are known to be published.
        self.commits = {artifact for (artifact,) in rows("SELECT artifact FROM commits")}
        releases = [
            Release(*row)._replace(losses=json.loads(row[5]))
            for row in rows(
                'SELECT id, kind, feature, "column", receiver, losses, ended, pins, digest, rows '
                "FROM column_releases ORDER BY number"
            )
        ]
        self.releases = {release.id: release for release in releases}
        # The release of each feature, by federation and run.
        self.run_releases = {
            (federation, run): json.loads(names)
            for federation, run, names in rows("SELECT federation, run, releases FROM run_releases")
        }
        # Federation, receiver, number, preceding number, run and digest of each checkpoint.
        self.checkpoints = rows(
            'SELECT federation, receiver, number, "after", run, head FROM checkpoints'
        )
        # Receiver, month, query and number of new people of each answered query.
        self.answered_queries = rows('SELECT receiver, epoch, "query", people FROM asked')
        # Keyed hashes of forgotten people.
        self.forgotten = {
            bytes.fromhex(person) for (person,) in rows("SELECT person FROM forgotten")
        }


def full_range_loss(curve: Mapping[str, Any]) -> Loss:
    """The exact loss across the full range, which is the last of a curve."""
    loss = curve["loss"][-1]
    return float("inf") if loss == "inf" else Fraction(loss)

"""A party's database, read without changing it."""

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

#: A loss, exactly; a float only where it is infinite.
Loss = Fraction | float


@dataclass(frozen=True)
class Release:
    """A charged release of a raw column.

    Attributes:
        id: Its permanent name.
        kind: ``values`` or ``edges``.
        feature: What the column was called in the federation.
        column: Name of the raw column.
        receiver: Who may read it.
        losses: Loss curves by charge.
        ended: When it ended; empty as long as it is open.
        pins: Name of its pin file; empty without one.
        digest: Digest of the pin file.
        rows: How many people the pin file has.
    """

    id: str
    kind: str
    feature: str
    column: str
    receiver: str
    losses: Mapping[str, Any]
    ended: str
    pins: str
    digest: str
    rows: int

    @property
    def loss(self) -> Loss:
        """Loss(R - L) of the value and of the missing bit together."""
        return sum((last_loss(curve) for curve in self.losses.values()), Fraction(0))


@dataclass(frozen=True)
class PartyState:
    """The parts of a party's database that a verification reads.

    Attributes:
        party: Whose it is.
        secret: Fingerprint of the party's secret.
        agreements: Content by digest, and whether each still stands.
        audit: Number, text and hash of each entry.
        entries: Ledger entries in their order.
        commits: Digests that are known to be published.
        releases: By id.
        run_releases: By federation and run, the release of each feature.
        checkpoints: Federation, receiver, number, number before it, run and digest.
        asked: Receiver, month, query and number of new people of all answered queries.
        forgotten: Keyed hashes of people who were forgotten.
    """

    party: str
    secret: str
    agreements: Mapping[str, Any]
    audit: list[tuple[int, str, str]]
    entries: list[Mapping[str, Any]]
    commits: set[str]
    releases: Mapping[str, Release]
    run_releases: Mapping[tuple[str, str], Mapping[str, str]]
    checkpoints: list[tuple[str, str, int, int, str, str]]
    asked: list[tuple[str, str, str, int]]
    forgotten: frozenset[bytes]

    def entries_of(self, artifact: str) -> list[Mapping[str, Any]]:
        """The ledger entries of an artifact, by its digest."""
        return self._by_artifact.get(artifact, [])

    @cached_property
    def charges(self) -> list[Mapping[str, Any]]:
        """The ledger entries by which releases were charged."""
        local = [entry for entry in self.entries if entry["account"] == "local_dp"]
        return [entry for entry in local if entry["artifact"] == entry["release"]]

    def knows(self, federation: str, receiver: str, head: Mapping[str, Any]) -> bool:
        """True if a checkpoint was given, or is covered by a recovery, whose run is empty."""
        return any(
            (name, to, number, digest) == (federation, receiver, head["number"], head["head"])
            for name, to, number, _, _, digest in self.checkpoints
        )

    def was_lost(self, federation: str, receiver: str, head: Mapping[str, Any]) -> bool:
        """True if a recovery, whose run is empty, covers a checkpoint."""
        return any(
            (name, to, run) == (federation, receiver, "") and after < head["number"] <= number
            for name, to, number, after, run, _ in self.checkpoints
        )

    @cached_property
    def _by_artifact(self) -> dict[str, list[Mapping[str, Any]]]:
        entries: dict[str, list[Mapping[str, Any]]] = {}
        for entry in self.entries:
            entries.setdefault(entry["artifact"], []).append(entry)
        return entries


def read_state(path: Path) -> PartyState:
    """The state in a SQLite file.

    Raises:
        ValueError: It is no such database, or of another version.
    """
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            return _state(database)
    except sqlite3.Error:
        raise ValueError("no database of this version") from None


def last_loss(curve: Mapping[str, Any]) -> Loss:
    """The loss across the full range, exactly."""
    loss = curve["loss"][-1]
    return float("inf") if loss == "inf" else Fraction(loss)


def _state(database: sqlite3.Connection) -> PartyState:
    def rows(query: str) -> list[Any]:
        return database.execute(query).fetchall()

    if rows("SELECT max(version) FROM schema") != [(1,)]:
        raise ValueError("another version")
    party, secret = rows("SELECT party, secret FROM state")[0]
    names = [field.name for field in fields(Release)]
    releases = [
        Release(**{**dict(zip(names, row, strict=True)), "losses": json.loads(row[5])})
        for row in rows(
            'SELECT id, kind, feature, "column", receiver, losses, ended, pins, digest, rows '
            "FROM column_releases ORDER BY number"
        )
    ]
    return PartyState(
        party=party,
        secret=secret,
        agreements={
            digest: json.loads(content)
            for digest, content in rows("SELECT digest, content FROM agreements ORDER BY number")
        },
        audit=rows("SELECT number, entry, hash FROM audit ORDER BY number"),
        entries=[json.loads(event) for (event,) in rows("SELECT event FROM entries ORDER BY id")],
        commits={artifact for (artifact,) in rows("SELECT artifact FROM commits")},
        releases={release.id: release for release in releases},
        run_releases={
            (federation, run): json.loads(names)
            for federation, run, names in rows("SELECT federation, run, releases FROM run_releases")
        },
        checkpoints=rows(
            'SELECT federation, receiver, number, "after", run, head FROM checkpoints'
        ),
        asked=rows('SELECT receiver, epoch, "query", people FROM asked'),
        forgotten=frozenset(
            bytes.fromhex(person) for (person,) in rows("SELECT person FROM forgotten")
        ),
    )

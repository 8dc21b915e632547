"""Releases: each is charged once, when it opens, and pins one response for each person.

One transaction under the ledger's write lock chooses the releases of a run, opens and charges new
ones, pins everybody of the table without a pin, and records the releases for the run. Nothing of
the run is published before it commits.

>>> taken = releases.take(request, budget)
>>> taken["income"].responses["income"]  # A response for each row of the table.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from fractions import Fraction
from typing import Any
from uuid import uuid4

import numpy as np
import sqlalchemy as sa

from opboost_ops.errors import BudgetError, ContractError
from opboost_ops.mechanisms import noise
from opboost_ops.privacy.declarations import Declaration, Loss
from opboost_ops.privacy.ledger.database import Database, Records
from opboost_ops.privacy.ledger.entries import Ledger, LedgerEntry
from opboost_ops.privacy.ledger.tables import now, table
from opboost_ops.privacy.people import Forgotten, Match, People, halves, merged
from opboost_ops.privacy.pins import Draw, PinFile, Pinned, Pins, drawn, exact_values, responses
from opboost_ops.privacy.release_records import RELEASES, Release, read_release, release_row
from opboost_ops.tables.spill.arrays import Scratch, slices
from opboost_ops.tables.spill.parts import gather

_RUNS = table("run_releases", {"federation": 160, "run": 40}, releases=str)


@dataclass(frozen=True)
class Choice:
    """The release that a run uses for a feature.

    Attributes:
        declaration: Of the feature.
        release: An open release; None where a new one opens.
        refused: Why no new release opened although one was due, in words; empty otherwise.
    """

    declaration: Declaration
    release: Release | None
    refused: str = ""


@dataclass(frozen=True)
class RunRequest:
    """A run's request for releases, as a stage makes it.

    Attributes:
        federation: Name of the federation.
        run: The run's id.
        party: Who releases.
        receiver: To whom.
        day: The plan's day.
        declarations: Of the features.
        people: Keyed hashes of everybody in the table, uint8, shape (n, 16), in its order.
        rows: The rows whose values were read, integers, rising, shape (m,).
        values: Domain integers of these rows by preprocessed column, shape (m,) each.
        seed: A public seed, which makes noise predictable: experiments alone have one.
        experiment: Whether what is released carries no guarantee.
    """

    federation: str
    run: str
    party: str
    receiver: str
    day: date
    declarations: Sequence[Declaration]
    people: np.ndarray
    rows: np.ndarray
    values: Mapping[str, np.ndarray]
    seed: bytes | None = None
    experiment: bool = False


@dataclass(frozen=True)
class Taken:
    """A feature's responses in a run.

    Attributes:
        release: Id of its release.
        responses: By released column, integers, shape (n,), in the table's order.
        exact: Pinned domain integers by preprocessed column, likewise; empty without
            ``routed: once``.
    """

    release: str
    responses: Mapping[str, np.ndarray]
    exact: Mapping[str, np.ndarray] = field(default_factory=dict)


#: Called with what each raw column has cost and the releases that would open; raises `BudgetError`.
Rule = Callable[[Mapping[str, Loss], Sequence[Release]], None]


class Releases(Records):
    """The releases of a party, and the pins of each.

    Args:
        database: The party's.
        pins: Its pin files.
        forgotten: People who are never pinned again.
    """

    def __init__(self, database: Database, pins: Pins, forgotten: Forgotten) -> None:
        super().__init__(database)
        self._ledger = Ledger(database)
        self._pins = pins
        self._forgotten = forgotten

    def all(self) -> list[Release]:
        """All releases, in the order in which they opened."""
        return self._database.unless_changed("releases", self._all)

    def spent(self) -> dict[str, Loss]:
        """The loss of each raw column: the sum over its releases, open or ended."""
        return _spent(self.all())

    def of_run(self, federation: str, run: str) -> dict[str, Release] | None:
        """By feature, the releases that were recorded for a run; None before its transaction."""
        query = sa.select(_RUNS.c.releases).where(
            _RUNS.c.federation == federation, _RUNS.c.run == run
        )
        row = self._database.first(query)
        if row is None:
            return None
        names = json.loads(row.releases)
        by_id = {release.id: release for release in self.all()}
        return {feature: by_id[name] for feature, name in names.items()}

    def choose(
        self, declarations: Iterable[Declaration], receiver: str, day: date, rule: Rule
    ) -> dict[str, Choice]:
        """The releases that a new run would use; nothing is written.

        Args:
            declarations: Of its features.
            receiver: To whom it releases.
            day: The plan's day.
            rule: Whether new releases fit the budgets.

        Raises:
            BudgetError: A new release does not fit, and there is no open one to go on with.
        """
        releases = self.all()
        spent = _spent(releases)
        newest_open = {
            release.declaration: release
            for release in releases
            if release.kind == "values" and release.receiver == receiver and not release.ended
        }
        choices: dict[str, Choice] = {}
        refused: list[BudgetError] = []
        for declaration in declarations:
            newest = newest_open.get(declaration.digest)
            over = declaration.refresh == "yearly" and newest and newest.opened.year < day.year
            if newest is not None and not over:
                choices[declaration.feature] = Choice(declaration, newest)
                continue
            opening = _opening(declaration, receiver, day)
            try:
                rule(spent, [opening])
            except BudgetError as error:
                if newest is None:
                    refused.append(error)
                    continue
                choices[declaration.feature] = Choice(declaration, newest, error.public)
                continue
            spent[declaration.column] = spent.get(declaration.column, Fraction(0)) + opening.loss
            choices[declaration.feature] = Choice(declaration, None)
        if refused:
            problems = " ".join(dict.fromkeys(error.problem for error in refused))
            raise BudgetError(problems, refused[0].remedy, public=refused[0].public)
        return choices

    def unpinned(self, choices: Iterable[Choice], people: np.ndarray) -> np.ndarray:
        """Who lacks a pin in one of the releases of a run, bool, shape (n,).

        Args:
            choices: Of the run.
            people: Keyed hashes of everybody in the table, uint8, shape (n, 16).

        Raises:
            BudgetError: Pins are gone, damaged or older than the ledger.
        """
        lacks = self._pins.scratch.zeros(len(people), bool)
        rising, order = rising_people(self._pins.scratch, people)
        match = Match(self._pins.scratch)
        for choice in choices:
            if choice.release is None:
                lacks[:] = True
                break
            pinned = self._pins.read(choice.release.pins, choice.declaration.kind)
            at = match.places(pinned.people, rising)
            for rows in slices(len(order)):
                lacks[order[rows][at[rows] < 0]] = True
        return lacks

    def take(self, request: RunRequest, rule: Rule) -> dict[str, Taken]:
        """Choose, charge, pin and record the releases of a run, all of it or nothing.

        A retry uses what the run has recorded.

        Args:
            request: What the run releases.
            rule: Whether new releases fit the budgets.

        Returns:
            By feature, what may be sent.

        Raises:
            BudgetError: A release does not fit a budget, has ended since the run recorded it, or
                its pins are lost; nothing was charged or pinned.
            ContractError: The run has not read the value of somebody who must be pinned.
        """
        scratch = self._pins.scratch
        people, order = rising_people(scratch, request.people)
        if people.has_twice():
            raise ContractError(
                f"Somebody is in the table of {request.party} twice.",
                "Keep one row per person, or aggregate rows in site.yaml.",
            )
        with self._database.writing() as connection:
            used = self.of_run(request.federation, request.run)
            if used is not None:
                self._require_open(used.values())
            else:
                used = self._opened(request, rule)
                names = {feature: release.id for feature, release in used.items()}
                row = {"federation": request.federation, "run": request.run}
                connection.execute(sa.insert(_RUNS).values(**row, releases=json.dumps(names)))
            gone = self._forgotten.among(people)
            match = Match(scratch)
            taken = {
                declaration.feature: self._take(
                    request, declaration, used[declaration.feature], people, order, gone, match
                )
                for declaration in request.declarations
            }
        self.collect()
        return taken

    def open(self, connection: sa.Connection, release: Release, **facts: Any) -> None:
        """Charge a release in a transaction: its row, and an entry of the ledger for each charge.

        Args:
            connection: The transaction.
            release: Which one.
            facts: What the entries say besides; see `LedgerEntry`.
        """
        connection.execute(sa.insert(RELEASES).values(release_row(release)))
        entries = [
            LedgerEntry(
                **{"rows": 0, **facts},
                federation=release.federation,
                run=release.run,
                receiver=release.receiver,
                kind="release" if release.kind == "values" else "edges",
                artifact=release.id,
                account="local_dp",
                feature=charge,
                column=release.column,
                release=release.id,
                loss=curve,
            )
            for charge, curve in release.losses.items()
        ]
        self._ledger.reserve(entries)
        self._ledger.commit(release.id)

    def end(self, ids: Iterable[str]) -> int:
        """End open releases; their pins are removed, and their charges stay.

        Args:
            ids: Which ones.

        Returns:
            How many were open.
        """
        here = RELEASES.c.id.in_(sorted(ids)), RELEASES.c.ended == ""
        with self._database.writing() as connection:
            changes = {"ended": now(), "pins": "", "digest": "", "rows": 0}
            count = connection.execute(sa.update(RELEASES).where(*here).values(changes)).rowcount
        self.collect()
        return count

    def lost(self) -> list[Release]:
        """Open releases whose pins are gone, damaged or older than the ledger."""
        return [
            release
            for release in self.all()
            if not release.ended and release.pins and not self._pins.is_whole(release.pins)
        ]

    def forget(self, hashes: Iterable[str]) -> int:
        """Remove people's pins; the list of the forgotten keeps them unpinned.

        Args:
            hashes: Keyed hashes of their IDs, hexadecimal.

        Returns:
            How many pins were removed.
        """
        keys = np.array([list(bytes.fromhex(digest)) for digest in sorted(hashes)], np.uint8)
        gone, _ = rising_people(self._pins.scratch, keys.reshape(-1, 16))
        removed = 0
        with self._database.writing():
            for release in self.all():
                if release.pins is None or not self._pins.is_whole(release.pins):
                    continue
                file, count = self._pins.without(release.id, release.pins, gone)
                removed += count
                if count:
                    self._point_to(release, file)
        self.collect()
        return removed

    def collect(self) -> None:
        """Remove pin files that no release points to, unless a transaction is open."""
        if self._database.in_transaction:
            return
        with self._database.writing():
            self._pins.remove_others({r.pins.name for r in self.all() if r.pins is not None})

    def _opened(self, request: RunRequest, rule: Rule) -> dict[str, Release]:
        """The releases of a new run; new ones are opened and charged."""
        choices = self.choose(request.declarations, request.receiver, request.day, rule)
        used: dict[str, Release] = {}
        for feature, choice in choices.items():
            release = choice.release
            if release is None:
                release = replace(
                    _opening(choice.declaration, request.receiver, request.day),
                    federation=request.federation,
                    run=request.run,
                )
                if request.seed is not None:
                    release = replace(release, id=self._seeded_id(request.seed, release))
                with self._database.writing() as connection:
                    self.open(
                        connection,
                        release,
                        party=request.party,
                        rows=len(request.people),
                        experiment=request.experiment,
                    )
            used[feature] = release
        return used

    def _seeded_id(self, seed: bytes, release: Release) -> str:
        """A predictable id, as all of an experiment is."""
        number = sum(earlier.declaration == release.declaration for earlier in self.all())
        place = f"release/{release.declaration}/{release.receiver}/{number}"
        return noise.keyed_by(seed, place).hex()[:32]

    def _require_open(self, releases: Iterable[Release]) -> None:
        ended = sorted(release.feature for release in releases if release.ended)
        if ended:
            raise BudgetError(
                f"The release of {', '.join(ended)} that this run recorded has ended.",
                "Trigger a new run.",
            )

    def _take(
        self,
        request: RunRequest,
        declaration: Declaration,
        release: Release,
        people: People,
        order: np.ndarray,
        gone: np.ndarray,
        match: Match,
    ) -> Taken:
        scratch, kind = self._pins.scratch, declaration.kind
        pinned = self._pins.read(release.pins, kind)
        at = match.places(pinned.people, people)
        joining = np.flatnonzero(at < 0)
        joining = joining[~gone[joining]]
        if len(joining):
            read = np.searchsorted(request.rows, order[joining])
            inside = read < len(request.rows)
            if not inside.all() or (request.rows[read] != order[joining]).any():
                raise ContractError(
                    f"The releases of {request.party} have changed since this run read its table.",
                    "Trigger a new run.",
                )
            values = {
                source: gather(scratch, request.values[source], read)
                for source in declaration.sources
            }
            new = People(people.high[joining], people.low[joining])
            draw = Draw(request.seed, f"{release.declaration}/{release.receiver}", new)
            rows = drawn(scratch, declaration, values, draw)
            whole, (joined,) = merged(scratch, pinned.people, new, (pinned.rows, rows))
            pinned = Pinned(whole, joined)
            file = self._pins.write(release.id, pinned)
            self._point_to(release, file)
            at = match.places(pinned.people, people)
        return Taken(
            release.id,
            responses(scratch, declaration, pinned.rows, at, order, request.seed),
            exact_values(scratch, declaration, pinned.rows, at, order),
        )

    def _point_to(self, release: Release, file: PinFile) -> None:
        changes = {"pins": file.name, "digest": file.digest, "rows": file.rows}
        here = RELEASES.c.id == release.id
        self._database.execute(sa.update(RELEASES).where(here).values(changes))

    def _all(self) -> list[Release]:
        query = sa.select(RELEASES).order_by(RELEASES.c.number)
        return [read_release(row) for row in self._database.rows(query)]


def rising_people(scratch: Scratch, keys: np.ndarray) -> tuple[People, np.ndarray]:
    """People in rising order, and which row of the table each is in.

    Args:
        scratch: Where they are, if they are more than it holds.
        keys: Keyed hashes, uint8, shape (n, 16).
    """
    high = scratch.zeros(len(keys), np.uint64)
    low = scratch.zeros(len(keys), np.uint64)
    for rows in slices(len(keys)):
        high[rows], low[rows] = halves(keys[rows])
    order = np.argsort(high, kind="stable").astype(np.min_scalar_type(len(keys)))
    return People(gather(scratch, high, order), gather(scratch, low, order)), order


def _spent(releases: Iterable[Release]) -> dict[str, Loss]:
    spent: dict[str, Loss] = {}
    for release in releases:
        spent[release.column] = spent.get(release.column, Fraction(0)) + release.loss
    return spent


def _opening(declaration: Declaration, receiver: str, day: date) -> Release:
    return Release(
        id=uuid4().hex,
        kind="values",
        feature=declaration.feature,
        column=declaration.column,
        receiver=receiver,
        federation="",
        declaration=declaration.digest,
        opened=day,
        run="",
        losses=declaration.losses,
    )

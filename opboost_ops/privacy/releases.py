"""Releases: each is charged once, when it opens, and pins one response per person.

One transaction under the ledger's write lock selects the releases of a run, opens and charges new
ones, pins everyone in the table who has no pin, and records the releases for the run. The run
publishes nothing before this transaction commits.

>>> features = releases.take(request, budget)
>>> features["income"].responses["income"]  # One response per row of the table.
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
from opboost_ops.privacy.people import Forgotten, Match, People, merge, sort_people
from opboost_ops.privacy.pins import Draw, PinFile, Pinned, Pins, draw_pins, exact_values, responses
from opboost_ops.privacy.release_records import (
    RELEASES,
    Release,
    read_release,
    release_row,
    spent_by_column,
)
from opboost_ops.tables.spill.arrays import slices
from opboost_ops.tables.spill.parts import gather

_RUNS = table("run_releases", {"federation": 160, "run": 40}, releases=str)


@dataclass(frozen=True)
class Choice:
    """The release that a run uses for a feature.

    Attributes:
        declaration: The feature's declaration.
        release: An open release; None if a new one opens.
        refused: Why a new release that was due did not open, in words; otherwise empty.
    """

    declaration: Declaration
    release: Release | None
    refused: str = ""


@dataclass(frozen=True)
class RunRequest:
    """A run's request for releases.

    Attributes:
        federation: Name of the federation.
        run: ID of the run.
        party: The releasing party.
        receiver: The receiving party.
        day: Day of the plan.
        declarations: Declarations of the features.
        people: Keyed hashes of everyone in the table, uint8, shape (n, 16), in table order.
        rows: Indices of the rows whose values were read, ascending integers, shape (m,).
        values: Domain integers of these rows by preprocessed column, shape (m,) each.
        seed: A public seed, which makes noise reproducible; only for experiments.
        experiment: True if the release carries no guarantee.
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
    seed: bytes | None
    experiment: bool


@dataclass(frozen=True)
class FeatureResponses:
    """A feature's responses in a run.

    Attributes:
        release: ID of its release.
        responses: By released column, integers, shape (n,), in table order.
        exact: Pinned domain integers by preprocessed column, shape (n,), in table order; empty
            without ``routed: once``.
    """

    release: str
    responses: Mapping[str, np.ndarray]
    exact: Mapping[str, np.ndarray] = field(default_factory=dict)


#: Called with the loss spent by each raw column and the releases to open; raises `BudgetError`.
Rule = Callable[[Mapping[str, Loss], Sequence[Release]], None]


class Releases(Records):
    """A party's releases and their pins.

    Args:
        database: The party's database.
        pins: Its pin files.
        forgotten: People who must not be pinned again.
    """

    def __init__(self, database: Database, pins: Pins, forgotten: Forgotten) -> None:
        super().__init__(database)
        self._ledger = Ledger(database)
        self._pins = pins
        self._forgotten = forgotten

    def all(self) -> list[Release]:
        """Return all releases, in the order in which they opened."""
        return self._database.unless_changed("releases", self._all)

    def spent(self) -> dict[str, Loss]:
        """Return the loss of each raw column: the sum over its releases, open or ended."""
        return spent_by_column(self.all())

    def of_run(self, federation: str, run: str) -> dict[str, Release] | None:
        """Return the releases recorded for a run, by feature; None before its transaction."""
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
        """Return the releases that a new run would use, without writing anything.

        Args:
            declarations: Declarations of the run's features.
            receiver: The receiving party.
            day: Day of the plan.
            rule: Checks that new releases fit the budgets.

        Raises:
            BudgetError: A new release exceeds a budget, and no release is open to continue with.
        """
        releases = self.all()
        spent = spent_by_column(releases)
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
            proposed = _proposed(declaration, receiver, day)
            try:
                rule(spent, [proposed])
            except BudgetError as error:
                if newest is None:
                    refused.append(error)
                    continue
                choices[declaration.feature] = Choice(declaration, newest, error.public)
                continue
            spent[declaration.column] = spent.get(declaration.column, Fraction(0)) + proposed.loss
            choices[declaration.feature] = Choice(declaration, None)
        if refused:
            problems = " ".join(dict.fromkeys(error.problem for error in refused))
            raise BudgetError(problems, refused[0].remedy, public=refused[0].public)
        return choices

    def unpinned(self, choices: Iterable[Choice], people: np.ndarray) -> np.ndarray:
        """Return a mask of the people without a pin in one of a run's releases, bool, shape (n,).

        Args:
            choices: The run's releases.
            people: Keyed hashes of everyone in the table, uint8, shape (n, 16).

        Raises:
            BudgetError: Pins are missing, damaged or older than the ledger.
        """
        unpinned = self._pins.scratch.zeros(len(people), bool)
        rising, order = sort_people(self._pins.scratch, people)
        match = Match(self._pins.scratch)
        for choice in choices:
            if choice.release is None:
                unpinned[:] = True
                break
            pinned = self._pins.read(choice.release.pins, choice.declaration.kind)
            at = match.places(pinned.people, rising)
            for rows in slices(len(order)):
                unpinned[order[rows][at[rows] < 0]] = True
        return unpinned

    def take(self, request: RunRequest, rule: Rule) -> dict[str, FeatureResponses]:
        """Select, charge, pin and record the releases of a run, in one transaction.

        A retry uses the releases that the run recorded.

        Args:
            request: The run's request.
            rule: Checks that new releases fit the budgets.

        Returns:
            The responses to send, by feature.

        Raises:
            BudgetError: A release exceeds a budget, has ended since the run recorded it, has lost
                its pins, or is of another declaration; nothing was charged or pinned.
            ContractError: The run did not read the value of a person who must be pinned.
        """
        scratch = self._pins.scratch
        people, order = sort_people(scratch, request.people)
        if people.has_duplicates():
            raise ContractError(
                f"A person occurs more than once in the table of {request.party}.",
                "Keep one row per person, or aggregate rows in site.yaml.",
            )
        with self._database.writing() as connection:
            used = self.of_run(request.federation, request.run)
            if used is not None:
                self._require_open(used.values())
                require_declared(used, request.declarations, request.receiver)
            else:
                used = self._chosen(request, rule)
                names = {feature: release.id for feature, release in used.items()}
                row = {"federation": request.federation, "run": request.run}
                connection.execute(sa.insert(_RUNS).values(**row, releases=json.dumps(names)))
            gone = self._forgotten.among(people)
            match = Match(scratch)
            responses_by_feature = {
                declaration.feature: self._pin_and_respond(
                    request, declaration, used[declaration.feature], people, order, gone, match
                )
                for declaration in request.declarations
            }
        self.collect()
        return responses_by_feature

    def open(self, connection: sa.Connection, release: Release, **details: Any) -> None:
        """Charge a release in a transaction: add its row, and one ledger entry per charge.

        Args:
            connection: The transaction.
            release: The release.
            details: Further fields of the entries; see `LedgerEntry`.
        """
        connection.execute(sa.insert(RELEASES).values(release_row(release)))
        entries = [
            LedgerEntry(
                **{"rows": 0, **details},
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
        """End open releases: remove their pins and keep their charges.

        Args:
            ids: IDs of releases.

        Returns:
            The number of releases that were open.
        """
        open_ones = RELEASES.c.id.in_(sorted(ids)), RELEASES.c.ended == ""
        with self._database.writing() as connection:
            changes = {"ended": now(), "pins": "", "digest": "", "rows": 0}
            update = sa.update(RELEASES).where(*open_ones)
            count = connection.execute(update.values(changes)).rowcount
        self.collect()
        return count

    def lost(self) -> list[Release]:
        """Return the open releases whose pins are missing, damaged or older than the ledger."""
        return [
            release
            for release in self.all()
            if not release.ended and release.pins and not self._pins.is_intact(release.pins)
        ]

    def forget(self, hashes: Iterable[str]) -> int:
        """Remove people's pins; the list of forgotten people prevents new ones.

        Args:
            hashes: Keyed hashes of their IDs, hexadecimal.

        Returns:
            The number of pins removed.
        """
        keys = np.array([list(bytes.fromhex(digest)) for digest in sorted(hashes)], np.uint8)
        gone, _ = sort_people(self._pins.scratch, keys.reshape(-1, 16))
        removed = 0
        with self._database.writing():
            for release in self.all():
                if release.pins is None or not self._pins.is_intact(release.pins):
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
            self._pins.remove_except({r.pins.name for r in self.all() if r.pins is not None})

    def _chosen(self, request: RunRequest, rule: Rule) -> dict[str, Release]:
        """Return the releases of a new run, opening and charging new ones."""
        choices = self.choose(request.declarations, request.receiver, request.day, rule)
        used: dict[str, Release] = {}
        for feature, choice in choices.items():
            release = choice.release
            if release is None:
                release = replace(
                    _proposed(choice.declaration, request.receiver, request.day),
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
        """Return a reproducible ID, for experiments."""
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

    def _pin_and_respond(
        self,
        request: RunRequest,
        declaration: Declaration,
        release: Release,
        people: People,
        order: np.ndarray,
        gone: np.ndarray,
        match: Match,
    ) -> FeatureResponses:
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
                    f"The releases of {request.party} changed after this run read its table.",
                    "Trigger a new run.",
                )
            values = {
                source: gather(scratch, request.values[source], read)
                for source in declaration.sources
            }
            new = People(people.high[joining], people.low[joining])
            draw = Draw(request.seed, f"{release.declaration}/{release.receiver}", new)
            rows = draw_pins(scratch, declaration, values, draw)
            whole, (joined,) = merge(scratch, pinned.people, new, (pinned.rows, rows))
            pinned = Pinned(whole, joined)
            file = self._pins.write(release.id, pinned)
            self._point_to(release, file)
            at = match.places(pinned.people, people)
        return FeatureResponses(
            release.id,
            responses(scratch, declaration, pinned.rows, at, order, request.seed),
            exact_values(scratch, declaration, pinned.rows, at, order),
        )

    def _point_to(self, release: Release, file: PinFile) -> None:
        changes = {"pins": file.name, "digest": file.digest, "rows": file.rows}
        update = sa.update(RELEASES).where(RELEASES.c.id == release.id).values(changes)
        self._database.execute(update)

    def _all(self) -> list[Release]:
        query = sa.select(RELEASES).order_by(RELEASES.c.number)
        return [read_release(row) for row in self._database.rows(query)]


def require_declared(
    used: Mapping[str, Release], declarations: Iterable[Declaration], receiver: str
) -> None:
    """Refuse recorded releases under another plan, as of a run that is cleared long after."""
    recorded = {name: (release.declaration, release.receiver) for name, release in used.items()}
    if recorded != {each.feature: (each.digest, receiver) for each in declarations}:
        raise BudgetError(
            "This run recorded releases under another declaration or to another receiver.",
            "Trigger a new run.",
        )


def _proposed(declaration: Declaration, receiver: str, day: date) -> Release:
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

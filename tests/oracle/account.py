"""Plays a history on the real account, as the stages of a feature holder do."""

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
import sqlalchemy as sa

from opboost_ops.config.federation import Federation
from opboost_ops.config.policy import Policy
from opboost_ops.config.site import Site
from opboost_ops.domain import Domain
from opboost_ops.errors import BudgetError, ContractError
from opboost_ops.mechanisms import noise
from opboost_ops.mechanisms.channel import TOTAL, Channel
from opboost_ops.privacy import declarations, releases
from opboost_ops.privacy.declarations import Declaration
from opboost_ops.privacy.ledger.budgets import Budget
from opboost_ops.privacy.ledger.database import Database
from opboost_ops.privacy.ledger.entries import Ledger
from opboost_ops.privacy.loss import column_losses
from opboost_ops.privacy.people import Forgotten
from opboost_ops.privacy.pins import Pins
from opboost_ops.tables.spill.arrays import Scratch
from tests.oracle.histories import Act, Event, Run, Table
from tests.oracle.reader import Channel as Counts
from tests.oracle.reader import Sent, Stated

#: Outputs for each input: so many that two draws are hardly ever the same.
_OUTPUTS = 500
_KEY = bytes(range(32))
_FEATURE, _COLUMN, _BUDGET = "income", "salary", 8.0
_SIGNING_KEY = "A" * 43 + "="


class CrashError(BaseException):
    """The process dies."""


@dataclass(frozen=True)
class Wide:
    """Randomised response with many outputs for each input, each as telling as any other.

    Attributes:
        epsilon: Its name among other channels; the loss is ln 3 or a little less.
        own: Weight of an output that stands for the input, beside 1.
    """

    epsilon: float
    own: int = 3

    def label(self) -> str:
        """Its name for people."""
        return f"wide {self.epsilon:g}"

    def channel(self, domain: Domain) -> Channel:
        """The channel on a domain."""
        return _wide(self.own, domain)


@lru_cache
def _wide(own: int, domain: Domain) -> Channel:
    inputs = np.arange(domain.lower, domain.upper + 1)
    unit = TOTAL // (_OUTPUTS * (own + len(inputs) - 1))
    rows = []
    for place in range(len(inputs)):
        row = [unit] * (_OUTPUTS * len(inputs))
        row[place * _OUTPUTS : (place + 1) * _OUTPUTS] = [own * unit] * _OUTPUTS
        row[place * _OUTPUTS] += TOTAL - sum(row)
        rows.append(tuple(row))
    return Channel(inputs, np.arange(_OUTPUTS * len(inputs)), tuple(rows))


def declaration(name: str, module: ModuleType = declarations) -> Declaration:
    """A declaration of the oracle, with its digest from the real code.

    Args:
        name: One of `histories.DECLARATIONS`.
        module: The code.
    """
    identity = "other" if name == "id" else "person"
    feature: dict[str, Any] = {
        "uuid": str(UUID(int=1)),
        "bounds": [0, 4 if name == "map" else 2],
        "missing": {"fill": 0},
        "mechanism": {"name": "global_map", "epsilon": 2.0 if name == "channel" else 1.0},
    }
    if name == "missing":
        feature["missing"] = {"fill": 0, "bit": 0.5}
    if name == "yearly":
        feature["refresh"] = "yearly"
    federation = Federation.model_validate(
        {
            "version": 1,
            "uuid": str(UUID(int=2)),
            "name": "oracle",
            "terms": {
                "purpose": "Test",
                "until": "2099-01-01",
                "retention_days": 1,
                "runs_per_month": {"train": 100, "score": 100},
            },
            "learning": "vertical",
            "id": {"column": identity, "type": "string"},
            "domain": {"lower": 1, "upper": 3},
            "parties": {
                "bank": {
                    "role": "label_holder",
                    "signing_key": _SIGNING_KEY,
                    "label": {"column": "label", "task": "binary"},
                },
                "source": {
                    "role": "feature_holder",
                    "signing_key": _SIGNING_KEY,
                    "features": {_FEATURE: feature},
                },
            },
            "training": {"trainer": "lightgbm", "trees": 5},
            "scoring": {"mode": "desensitised"},
        }
    )
    real = module.declarations(federation, "source", policy(name), _site())[_FEATURE]
    columns = tuple(
        column if column.name != _FEATURE else replace(column, mechanism=_mechanism(name))
        for column in real.columns
    )
    result: Declaration = replace(real, columns=columns, losses=column_losses(columns))
    return result


def _mechanism(name: str) -> Any:
    return Wide(2.0, own=4) if name == "channel" else Wide(1.0)


def policy(name: str) -> Policy:
    """The party's policy under which a declaration is released.

    Args:
        name: Of the declaration.
    """
    rule: dict[str, Any] = {"column": _COLUMN, "mechanisms": ["global_map"], "budget": _BUDGET}
    if name in ("once", "every_run"):
        rule["routed"] = name
    raw = {"id_column": "key"} if name == "raw_id" else {}
    return Policy.model_validate(
        {"version": 1, "party": "source", **raw, "features": {_FEATURE: rule}}
    )


@lru_cache
def _site() -> Site:
    return Site.model_validate({"version": 1, "party": "source", "store": "store"})


def channels(declared: Mapping[str, Declaration]) -> dict[str, list[Counts]]:
    """The integer tables of some declarations, as the reader takes them.

    Args:
        declared: By name.
    """
    return {
        name: [counts_of(column.mechanism, column.domain) for column in of.columns]
        for name, of in declared.items()
    }


@lru_cache
def counts_of(mechanism: Any, domain: Domain) -> Counts:
    """The integer table of a mechanism, as the reader takes it."""
    channel = mechanism.channel(domain)
    return {
        int(value): {int(o): count for o, count in zip(channel.outputs, row, strict=True)}
        for value, row in zip(channel.inputs, channel.counts, strict=True)
    }


class Account(Protocol):
    """The parts of a party's state that say what was charged and pinned."""

    releases: Any
    ledger: Ledger
    pins: Pins
    forgotten: Forgotten


def stated_by(account: Account, kinds: Mapping[str, np.dtype[Any]], budget: Fraction) -> Stated:
    """A party's own words.

    Args:
        account: Its state.
        kinds: Type of a pin, by declaration; pins of other declarations are not read.
        budget: Of each raw column.
    """
    every = account.releases.all()
    entries: dict[str, Fraction] = {}
    for entry in account.ledger.entries():
        # Entries of artifacts repeat what a release has been charged.
        if entry.kind == "release" and entry.loss is not None and entry.column is not None:
            cost = Fraction(entry.loss.loss[-1])
            entries[entry.column] = entries.get(entry.column, Fraction(0)) + cost
    pinned = {}
    for release in every:
        if release.pins is not None and release.declaration in kinds:
            people = account.pins.read(release.pins, kinds[release.declaration]).people
            pairs = zip(people.high.tolist(), people.low.tolist(), strict=True)
            pinned[release.id] = frozenset(f"{high:016x}{low:016x}" for high, low in pairs)
    return Stated(
        losses={release.id: release.loss for release in every},
        receivers={release.id: release.receiver for release in every},
        spent=account.releases.spent(),
        entries=entries,
        pinned=pinned,
        forgotten=frozenset(account.forgotten.read().people),
        budget=budget,
        open=frozenset(release.id for release in every if not release.ended),
    )


class Party:
    """A feature holder with an account, and what it has published.

    Args:
        folder: Its own; what an earlier party left there goes.
        declared: The declarations that it may agree to.
        code: The module `privacy.releases`, or one that differs from it.
    """

    def __init__(
        self, folder: Path, declared: Mapping[str, Declaration], code: ModuleType = releases
    ) -> None:
        self.sent: list[Sent] = []
        self.used: set[tuple[int, str]] = set()
        self._folder = folder
        self._code = code
        self._declared = declared
        self._homes: dict[str, tuple[list[str], np.ndarray, dict[str, np.ndarray]]] = {}
        self._charged: dict[str, Any] = {}
        self._forgotten_people: set[str] = set()
        self._past: Path | None = None
        self._event = 0
        state, past, empty = (folder / name for name in ("state", "past", "empty"))
        for former in (state, past):
            shutil.rmtree(former, ignore_errors=True)
        if not empty.exists():
            # Making the tables takes as long as half a history.
            empty.mkdir(parents=True)
            Database(f"sqlite:///{empty / 'ledger.sqlite'}").close()
        shutil.copytree(empty, state)
        self._open()

    def play(self, events: list[Event], seed: int) -> None:
        """Let a history happen.

        Args:
            events: The history.
            seed: Of the operating system's randomness.
        """
        restored = any(
            isinstance(event, Act) and event.kind == "restore" for event in _acts(events)
        )
        for self._event, event in enumerate(events):
            with _randomness(seed, self._event):
                if isinstance(event, Run):
                    self._run(event)
                else:
                    self._act(event)
            if self._event == 2 and restored:
                self._past = self._folder / "past"
                self._database.close()
                shutil.copytree(self._folder / "state", self._past)
                self._open()

    def stated(self) -> Stated:
        """The party's own words."""
        kinds = {of.digest: of.kind for of in self._declared.values()}
        return stated_by(self, kinds, Fraction(_BUDGET))

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def _open(self) -> None:
        state = self._folder / "state"
        self._database = Database(f"sqlite:///{state / 'ledger.sqlite'}")
        self.forgotten = Forgotten(self._database, lambda: _KEY)
        self.pins = Pins(state / "pins", Scratch(self._folder), lambda: _KEY)
        self.releases = self._code.Releases(self._database, self.pins, self.forgotten)
        self.ledger = Ledger(self._database)

    def _run(self, run: Run) -> None:
        if run.crash is not None:
            with suppress(CrashError), _crash(run.crash):
                self._whole(run)
            self._database.close()
            self._open()
        self._whole(replace(run, crash=None))

    def _whole(self, run: Run) -> None:
        self._read(run)
        if run.beside is not None:
            self._read(run.beside)
        if run.between is not None:
            self._act(run.between)
        taken = self._take(run)
        other = None if run.beside is None else self._take(run.beside)
        if run.beside is not None:
            self._publish(run.beside, other)
        self._publish(run, taken)

    def _read(self, run: Run) -> None:
        """What `check_table` does: the IDs of the whole table, and values where no pin is."""
        if run.name in self._homes:
            return
        people = self._staying(sorted(run.table))
        one = self._declared[run.declared]
        with suppress(BudgetError):
            choices = self.releases.choose([one], run.receiver, self._day(run), self._rule(run))
            lacks = self.releases.unpinned(choices.values(), _hashes(people))
            rows = np.flatnonzero(lacks)
            self.used |= {(self._event, people[row]) for row in rows}
            values = np.array([run.table[people[row]] for row in rows], dtype=np.int64)
            whole = {}
            for column in one.columns:
                missing = column.source_domain.lower == 0
                whole[column.source] = (values == 0).astype(int) if missing else values.clip(1)
            self._homes[run.name] = (people, rows, whole)

    def _staying(self, people: list[str]) -> list[str]:
        stays = self.forgotten.read().keep(pa.array(people, pa.string()), "string")
        return [person for person, stay in zip(people, stays, strict=True) if stay]

    def _take(self, run: Run) -> Any:
        if run.name not in self._homes:
            return None
        people, rows, values = self._homes[run.name]
        request = self._code.RunRequest(
            federation="oracle",
            run=run.name,
            party="source",
            receiver=run.receiver,
            day=self._day(run),
            declarations=[self._declared[run.declared]],
            people=_hashes(people),
            rows=rows,
            values=values,
            seed=None,
            experiment=False,
        )
        with suppress(BudgetError, ContractError):
            return self.releases.take(request, self._rule(run))
        return None

    def _publish(self, run: Run, taken: Any) -> None:
        charged = self.releases.spent().get(_COLUMN, Fraction(0))
        for result in (taken or {}).values():
            people = self._homes[run.name][0]
            for row, person in enumerate(people):
                if person in self._forgotten_people:
                    continue
                self.sent.append(
                    Sent(
                        run=run.name,
                        release=result.release,
                        receiver=run.receiver,
                        column=_COLUMN,
                        # When a release is renewed is no part of how a value becomes a response.
                        declared="first" if run.declared == "yearly" else run.declared,
                        person=person,
                        response=tuple(int(of[row]) for of in result.responses.values()),
                        exact=tuple(int(of[row]) for of in result.exact.values()),
                        charged=charged,
                    )
                )
            self._charged[result.release] = next(
                r for r in self.releases.all() if r.id == result.release
            )

    def _act(self, act: Act) -> None:
        if act.kind == "forget":
            self._forgotten_people.add(act.person)
            hashed = self.forgotten.hashed(act.person)
            with self._database.writing():
                self.releases.forget([hashed])
                self.forgotten.add([hashed])
        elif act.kind == "end":
            self.releases.end(release.id for release in self.releases.all())
        elif act.kind == "lose":
            files = sorted((self._folder / "state" / "pins").glob("*.pins"))
            if files:
                max(files, key=lambda file: file.stat().st_mtime_ns).unlink()
            self.releases.end(release.id for release in self.releases.lost())
        elif self._past is not None:
            self._restore()

    def _restore(self) -> None:
        """An old state, and what `ledger recover` does with the party's own manifests."""
        assert self._past is not None
        forgotten = [self.forgotten.hashed(person) for person in self._forgotten_people]
        self._database.close()
        shutil.rmtree(self._folder / "state")
        shutil.copytree(self._past, self._folder / "state")
        self._open()
        known = {release.id for release in self.releases.all()}
        with self._database.writing() as connection:
            for name, release in self._charged.items():
                if name not in known:
                    ended = replace(release, ended="recovered", pins=None)
                    self.releases.open(connection, ended, party="source", recovered=True)
            self.forgotten.add(forgotten)
        self.releases.end(release.id for release in self.releases.all())

    def _rule(self, run: Run) -> Budget:
        return Budget(policy(run.declared)).releases

    def _day(self, run: Run) -> date:
        return date(run.year, 6, 1)


def _acts(events: list[Event]) -> Iterator[Event | None]:
    for event in events:
        yield event
        if isinstance(event, Run):
            yield event.between


def _hashes(people: list[str]) -> np.ndarray:
    return np.array([_hash(person) for person in people], np.uint8).reshape(-1, 16)


@lru_cache
def _hash(person: str) -> np.ndarray:
    return noise.person_keys(_KEY, pa.array([person]), "string")[0]


@contextmanager
def _randomness(seed: int, event: int) -> Iterator[None]:
    """The operating system's randomness, so that a history can be played twice."""
    counter = iter(range(10**9))

    def urandom(size: int) -> bytes:
        place = f"{seed}/{event}/{next(counter)}".encode()
        return hashlib.shake_256(place).digest(size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "urandom", urandom)
        yield


@contextmanager
def _crash(at: int) -> Iterator[None]:
    """Die at a write to the database or to a file's name."""
    left = [at]

    def step() -> None:
        left[0] -= 1
        if not left[0]:
            raise CrashError

    def statement(*given: Any) -> None:
        if given[2].split(None, 1)[0].upper() in ("INSERT", "UPDATE", "DELETE"):
            step()

    def committing(*_: Any) -> None:
        step()

    rename = os.replace

    def renaming(*given: Any, **named: Any) -> None:
        step()
        rename(*given, **named)

    sa.event.listen(sa.Engine, "before_cursor_execute", statement)
    sa.event.listen(sa.Engine, "commit", committing)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "replace", renaming)
            yield
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", statement)
        sa.event.remove(sa.Engine, "commit", committing)


def other_values(events: list[Event], used: set[tuple[int, str]]) -> list[Event]:
    """A neighbour: the same history with other values wherever none was read.

    Args:
        events: The history.
        used: Event and person of each value that was read in it.
    """

    def changed(number: int, table: Table) -> Table:
        return {p: v if (number, p) in used else (v + 1) % 4 for p, v in table.items()}

    found: list[Event] = []
    for number, event in enumerate(events):
        if isinstance(event, Run):
            beside = event.beside
            if beside is not None:
                beside = replace(beside, table=changed(number, beside.table))
            event = replace(event, table=changed(number, event.table), beside=beside)
        found.append(event)
    return found

"""Histories of whole runs: a federation of two parties through the real runner, night by night.

The mechanisms are real ones with few outputs, so that two draws of a person may look like one: the
reader counts too few draws, never too many.
"""

import json
import random
import shutil
from collections.abc import Iterable
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl

from opboost_ops.config.columns import Column
from opboost_ops.config.federation import Purpose
from opboost_ops.errors import OpBoostError
from opboost_ops.pipeline.home import Home
from opboost_ops.pipeline.party import recovery
from opboost_ops.privacy.declarations import declarations
from tests.federation import Workspace, small_credit
from tests.oracle.account import counts_of, stated_by
from tests.oracle.reader import Channel, Sent, Verdict, read
from tests.party_state import state_of

PARTY, _LABEL, _BUDGET = "bank", "credit", 40
_FEATURES = ("income", "overdrafts")
_ROWS = 60


@lru_cache
def empty(folder: Path) -> Workspace:
    """The federation before its first run."""
    whole = small_credit(rows=_ROWS, without="shop")
    workspace = Workspace.write(
        folder / "empty", whole, training={"trees": 2, "depth": 2}, seed=None
    )

    def few_features(federation: Any) -> None:
        features = federation["parties"][PARTY]["features"]
        for name in set(features) - set(_FEATURES):
            del features[name]

    def rules(policy: Any) -> None:
        rule = {"mechanisms": ["global_map", "missing_bit"], "budget": _BUDGET}
        policy["features"] = {name: dict(rule) for name in _FEATURES}

    workspace.edit_yaml(f"{PARTY}/policy.yaml", rules)
    workspace.edit_yaml("federation.yaml", few_features)
    return workspace


class History:
    """A random history.

    Args:
        folder: Where it happens; empty.
        seed: Of its choices.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.sent: list[Sent] = []
        self._choose = random.Random(seed)
        self.workspace = empty(folder.parent).copy(folder, "0" * 16)
        self._forgotten: set[str] = set()
        self._channels: dict[str, list[Channel]] = {}
        self._kinds: dict[str, Any] = {}
        self._nights = 0

    def play(self, nights: int = 4) -> None:
        """Let it happen."""
        acts = (
            *(self._change_values, self._change_values, self._lose_values, self._break_a_column),
            *(self._replace_people, self._declare_something, self._forget, self._end, self.recover),
        )
        self.night("train")
        for _ in range(nights - 1):
            for act in self._choose.sample(acts, 2):
                act()
            with suppress(OpBoostError):
                self.night("score" if self._choose.random() < 0.25 else "train", may_stop=True)

    def night(self, purpose: Purpose, *, may_stop: bool = False) -> None:
        """Another run.

        Args:
            purpose: What for.
            may_stop: Whether it may stop after any step, and is then tried again from there or
                from an earlier step.
        """
        self._nights += 1
        folder = self.workspace.folder
        workspace = self.workspace = Workspace(folder, f"{self._nights:016x}", purpose)
        self._learn_channels()
        workspace.open()
        steps = list(workspace.steps())
        stop = 0
        if may_stop and self._choose.random() < 0.4:
            stop = self._choose.randrange(len(steps))
        again = max(0, stop - self._choose.randint(1, 6))
        for step in [*steps[:stop], *steps[again:]]:
            workspace.step(step.party, step.stage)
            if step.party == PARTY and step.stage == "seal":
                self._read_what_left()

    def verdict(self) -> Verdict:
        """The reader's findings."""
        with state_of(self.workspace, PARTY) as state:
            stated = stated_by(state, self._kinds, Fraction(_BUDGET))
        return read(self.sent, stated, self._channels)

    def copy_state(self) -> Path:
        """A copy of the party's state as it is now."""
        copied = self.workspace.folder / f"state of night {self._nights}"
        for path in self._state():
            target = copied / path.name
            shutil.copytree(path, target) if path.is_dir() else shutil.copy2(path, target)
        return copied

    def restore(self, past: Path) -> None:
        """Let the party's state be as it once was."""
        for path in self._state():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(past, self._state()[0].parent, dirs_exist_ok=True)

    def _state(self) -> list[Path]:
        """The pins, then the files of the database."""
        site = self.workspace.site(PARTY)
        return [site.pins, *site.pins.parent.glob("*.sqlite*")]

    def _read_what_left(self) -> None:
        workspace = self.workspace
        kind = "ranks" if workspace.purpose == "train" else "values"
        named = workspace.artifact(kind, PARTY).manifest.releases
        home = Home(workspace.home(PARTY))
        people = home.table("ids").column(0).to_pylist()
        responses = home.table("randomised")
        with state_of(workspace, PARTY) as state:
            spent = state.releases.spent()
        for feature, name in named.items():
            columns = [
                responses.column(column).to_pylist()
                for column in responses.column_names
                if column.partition("=")[0] == feature
            ]
            for person, response in zip(people, zip(*columns, strict=True), strict=True):
                if person not in self._forgotten:
                    self.sent.append(
                        Sent(
                            run=workspace.run,
                            release=name,
                            receiver=_LABEL,
                            column=feature,
                            declared=self._names[feature],
                            person=person,
                            response=tuple(map(int, response)),
                            exact=(),
                            charged=spent[feature],
                        )
                    )

    def _learn_channels(self) -> None:
        workspace = self.workspace
        federation = workspace.declared
        present = declarations(federation, PARTY, workspace.policy(PARTY), workspace.site(PARTY))
        declared = json.loads(federation.model_dump_json())["parties"][PARTY]["features"]
        self._names = {}
        for feature, of in present.items():
            # When a release is renewed is no part of how a value becomes a response.
            words = {k: v for k, v in declared[feature].items() if k != "refresh"}
            name = self._names[feature] = f"{feature} {json.dumps(words, sort_keys=True)}"
            self._channels[name] = [_counts(column) for column in of.columns]
            self._kinds[of.digest] = of.kind

    def _change_values(self) -> None:
        feature = self._choose.choice(_FEATURES)
        seed = self._choose.randrange(1000)
        self.workspace.edit_table(
            PARTY, lambda t: t.with_columns(pl.col(feature).shuffle(seed=seed))
        )

    def _lose_values(self) -> None:
        feature = self._choose.choice(_FEATURES)
        kept = pl.int_range(pl.len()) % self._choose.randint(2, 9) != 0
        self.workspace.edit_table(
            PARTY, lambda t: t.with_columns(pl.when(kept).then(feature).alias(feature))
        )

    def _break_a_column(self) -> None:
        feature = self._choose.choice(_FEATURES)
        self.workspace.edit_table(PARTY, lambda t: t.with_columns(pl.lit("none").alias(feature)))

    def _replace_people(self) -> None:
        self.change_people(self._choose.randint(1, 20))

    def change_people(self, leaving: int) -> None:
        """Let some people leave, and as many others join."""
        new = pl.format(f"N{self._choose.randrange(9)}-{{}}", "id").alias("id")
        self.workspace.edit_table(
            PARTY, lambda t: pl.concat([t.tail(-leaving), t.head(leaving).with_columns(new)])
        )

    def _declare_something(self) -> None:
        change = self._choose.choice(
            (
                {"income": {"mechanism": {"epsilon": self._choose.choice((0.5, 1.0))}}},
                {"overdrafts": {"bounds": [0, self._choose.choice((8, 9, 12))]}},
                {"income": {"missing": {"fill": 2500, "bit": 0.5}}},
                {"overdrafts": {"refresh": self._choose.choice(("never", "yearly"))}},
            )
        )
        self.declare_again(change)

    def declare_again(self, change: dict[str, Any]) -> None:
        """Let all agree to other features of the party."""
        self.workspace.declare("federation.yaml", parties={PARTY: {"features": change}})

    def _forget(self) -> None:
        table = pl.read_parquet(self.workspace.table_path(PARTY))
        person = self._choose.choice(table.get_column("id").to_list())
        self._forgotten.add(person)
        with state_of(self.workspace, PARTY) as state, state.database.writing():
            hashed = state.forgotten.hashed(person)
            state.releases.forget([hashed])
            state.forgotten.add([hashed])

    def _end(self) -> None:
        feature = self._choose.choice(_FEATURES)
        with state_of(self.workspace, PARTY) as state:
            state.releases.end(r.id for r in state.releases.all() if r.column == feature)

    def recover(self, code: ModuleType = recovery) -> None:
        """Let the party recover.

        Args:
            code: The module `pipeline.party.recovery`, or one that differs from it.
        """
        with self.workspace.known():
            code.recover(self.workspace.site(PARTY), self.workspace.policy(PARTY))


@lru_cache
def _counts(column: Column) -> Channel:
    return counts_of(column.mechanism, column.domain)


def worst_of(folder: Path, seeds: Iterable[int]) -> float:
    """The largest exact loss over what was charged for it, of histories without a fault.

    Args:
        folder: Where they happen.
        seeds: Of the histories.

    Raises:
        AssertionError: A history has a fault.
    """
    worst = 0.0
    for seed in seeds:
        history = History(folder / str(seed), seed)
        history.play()
        verdict = history.verdict()
        assert not verdict.faults, f"history of whole runs {seed}: {verdict.faults}"
        worst = max(worst, verdict.worst)
    return worst

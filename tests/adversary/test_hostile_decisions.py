"""Hostile decisions of the active party: whether a party refuses one follows from no row of its.

Sums are hidden among the parties, and a refusal is seen of each party alone.
"""

import copy
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from opboost_ops.domain import Domain
from opboost_ops.errors import OpBoostError
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.rounds.masks import Packing
from opboost_ops.exchange.rounds.protocol import Round
from opboost_ops.learning.federboost.federboost import Settings, learn
from opboost_ops.learning.federboost.histogram import Growth
from opboost_ops.learning.federboost.objectives import Objective
from opboost_ops.learning.federboost.private_federboost import Private, learn_private
from opboost_ops.learning.federboost.quantiles import halves

HUGE = 10**30
BINARY, SQUARE = Objective("binary", 2), Objective("regression", 0, (0.0, 10.0))
CLASSES = Objective("multiclass", 3)
LEARNERS = {
    "binary": (BINARY, learn),
    "regression": (SQUARE, learn),
    "multiclass": (CLASSES, learn),
    "private binary": (BINARY, learn_private),
    "private regression": (SQUARE, learn_private),
}
PRIVATE = Private(epsilon=4.0, delta=1e-4, honest=2)


def rows(objective: Objective, seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    """A party's table; at seed 2 all rows are alike, and most leaves are empty."""
    random = np.random.default_rng(seed)
    columns = [random.integers(1, 257, 60), random.integers(1, 5, 60)]
    label = random.integers(0, objective.classes or 10, 60).astype(float)
    if seed == 2:
        columns, label = [np.full(60, 200), np.full(60, 4)], np.full(60, label[0])
    return columns, label


class Decides:
    """The active party's decisions as they are read by another one.

    Args:
        recorded: By round, the decisions of an honest session, for reading; filled if empty.
        spoil: Changes the decision of a round in place.
    """

    parties, derives = 3, False

    def __init__(
        self, recorded: dict[str, Any], spoil: Callable[[str, Any], None] | None = None
    ) -> None:
        self._recorded, self._spoil = recorded, spoil
        self.sent: list[tuple[str, int]] = []

    def total(self, name: Round) -> np.ndarray:
        raise NotImplementedError(str(name))

    def step(
        self, name: Round, size: int, vector: Any, decide: Any, form: Any, bounds: Any = ()
    ) -> Any:
        made = vector()
        packing = Packing(size, bounds)
        assert made.shape == (size,) and packing.fits(made, self.parties)
        self.sent.append((name.name, packing.length))
        if self._spoil is None:
            self._recorded[name.name] = json.loads(decide(3 * made).model_dump_json())
        decision = copy.deepcopy(self._recorded.get(name.name))
        if decision is None:
            raise Rejected("malformed", "The active party has nothing more to say.")
        if self._spoil is not None:
            self._spoil(name.name, decision)
        try:
            return form.model_validate_json(json.dumps(decision))
        except ValidationError:
            raise Rejected("malformed", "It decides nothing known.") from None


def learnt(kind: str, seed: int, heard: Decides) -> str:
    """How the session ends for a party."""
    objective, learner = LEARNERS[kind]
    if learner is learn_private:
        learner = partial(learn_private, private=PRIVATE)
    growth = Growth(depth=2, learning_rate=0.2, penalty=1.0, min_node_rows=2)
    trees = 12 if kind.startswith("private") else 2
    settings = Settings(objective, (Domain(1, 256), Domain(1, 4)), trees, 8, growth)
    columns, label = rows(objective, seed)
    try:
        learner(columns, label, settings, rounds=heard)  # type: ignore[operator]
    except OpBoostError as error:
        return str(error)
    return ""


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a document: every field, and the first entry of each list."""
    if path:
        yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list) and value:
        yield from places(value[0], (*path, 0))


VALUES: tuple[Any, ...] = (
    HUGE, 10**400, -1, 0, -1e308, 5.0, 1e9, float("nan"), "x", None, [], [1, 2, 3], "g" * 64,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", LEARNERS)
def test_a_refusal_of_a_decision_follows_from_no_row(kind: str) -> None:
    recorded: dict[str, Any] = {}
    assert not learnt(kind, 1, Decides(recorded))
    names = {name.split("-")[0]: name for name in reversed(recorded)}
    deepest = [name for name in recorded if name.startswith("trees") and name.endswith("01")]
    tried = 0
    for at in {*names.values(), *deepest[:1]}:
        for path in places(recorded[at]):
            for value in VALUES:

                def spoil(
                    name: str, decision: Any, at: str = at, path: Any = path, value: Any = value
                ) -> None:
                    if name == at:
                        for step in path[:-1]:
                            decision = decision[step]
                        decision[path[-1]] = value

                one, other = Decides(recorded, spoil), Decides(recorded, spoil)
                ended = learnt(kind, 1, one)
                assert learnt(kind, 2, other) == ended, (at, path, value)
                assert one.sent == other.sent, (at, path, value)
                tried += 1
    assert tried > 100


class Sizes(Decides):
    """How many sums each round asks for."""

    def step(self, name: Round, size: int, *more: Any) -> Any:
        self.asked.setdefault(name.phase, []).append(size)
        return super().step(name, size, *more)

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.asked: dict[str, list[int]] = {}


def test_who_splits_every_interval_gets_no_finer_sums_than_the_ledger_says() -> None:
    """At most three sums for each bucket of a column: the whole distribution is not asked for."""
    recorded: dict[str, Any] = {}
    assert not learnt("binary", 1, Decides(recorded))
    present = [[(0, 256)], [(0, 4)]]

    def split_all(name: str, decision: Any) -> None:
        if name.startswith("lookup"):
            for at, search in enumerate(decision["searches"]):
                present[at] = [half for each in present[at] for half in halves(each)]
                search["present"] = present[at]

    greedy = Sizes(recorded, split_all)
    ended = learnt("binary", 1, greedy)
    assert max(greedy.asked["lookup"]) <= 3 * 8 * 2
    assert "does not fit" in ended

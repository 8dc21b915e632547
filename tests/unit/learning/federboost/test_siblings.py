"""Derived siblings: half the nodes are asked for, and no bit of the model changes."""

from dataclasses import replace

import pytest

from opboost_ops.exchange.rounds.protocol import Alone
from opboost_ops.learning.federboost.federboost import learn
from opboost_ops.learning.federboost.objectives import Objective
from tests.horizontal import some_rows


class Counted(Alone):
    """Rounds that count what is asked for."""

    def __init__(self, derives):
        self.derives, self.asked = derives, []

    def _sum(self, name, size, vector):
        found = vector()
        assert found.size == size
        if name.phase == "trees":
            self.asked.append((name.level, size))
        return found


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_no_bit_of_the_model_changes(task):
    columns, label, settings = some_rows()
    objective = {
        "binary": settings.objective,
        "multiclass": Objective("multiclass", 3),
        "regression": Objective("regression", bounds=(0.0, 2.0)),
    }[task]
    label = label + (columns[2] > 128 if task != "binary" else 0)
    settings = replace(
        settings, objective=objective, growth=replace(settings.growth, depth=4, min_node_rows=2)
    )
    whole, half = Counted(False), Counted(True)
    models = [learn(columns, label, settings, rounds) for rounds in (whole, half)]
    one, other = ([[(t.leaves, t.splits) for t in each] for each in m.trees] for m in models)
    assert one == other
    assert [level for level, _ in whole.asked] == [level for level, _ in half.asked]
    # Of the levels below the root at most half is asked for, and a node that has no open sibling.
    below = [sum(n for level, n in each.asked if level) for each in (whole, half)]
    assert below[1] < 0.75 * below[0]

"""The generated lenders of the demo need one another: together beats each alone."""

import numpy as np

from benchmarks.papers import horizontal
from opboost_ops.domain import Domain, DomainMap
from opboost_ops.exchange.rounds.protocol import Alone
from opboost_ops.extras.datasets.generated import (
    _EMPLOYMENT,
    _LENDER_FEATURES,
    SMALL,
    _lender_tables,
)
from opboost_ops.learning.federboost import federboost
from opboost_ops.learning.federboost.federboost import Settings
from opboost_ops.learning.federboost.histogram import Growth
from opboost_ops.learning.federboost.objectives import Objective

NUMBERS = [name for name in _LENDER_FEATURES if name != "employment"]
WIDE = Domain(1, 65_536)
SETTINGS = Settings(
    Objective("binary", 2),
    (*[WIDE] * len(NUMBERS), *[Domain(1, 2)] * len(_EMPLOYMENT)),
    40,
    16,
    Growth(3, 0.1, 1.0, 20),
)


def rows_of(table):
    columns = []
    for name in NUMBERS:
        values = table[name].cast(float).fill_null(2500.0).to_numpy()
        spec = _LENDER_FEATURES[name]
        mapping = DomainMap(WIDE, tuple(spec["bounds"]), spec.get("scale", "linear"))
        columns.append(mapping.encode(values))
    columns += [(table["employment"] == kind).to_numpy().astype(int) + 1 for kind in _EMPLOYMENT]
    return columns, table["default"].to_numpy().astype(float)


def gains(seed):
    """AUC in percent of each lender's held-out rows: together less alone."""
    known, held = [], []
    for table in _lender_tables(["north", "south", "east"], 6000, seed, "C").values():
        columns, label = rows_of(table)
        first = round(len(label) * (1 - SMALL["holdout"]))
        known.append(([c[:first] for c in columns], label[:first]))
        held.append(([c[first:] for c in columns], label[first:]))
    pooled = [np.concatenate(each) for each in zip(*(c for c, _ in known), strict=True)]
    label = np.concatenate([label for _, label in known])
    together = federboost.learn(pooled, label, SETTINGS, Alone())

    def auc(model, columns, truth):
        return horizontal.auc(truth, horizontal.scores(model, columns))

    return [
        auc(together, *theirs) - auc(federboost.learn(*mine, SETTINGS, Alone()), *theirs)
        for mine, theirs in zip(known, held, strict=True)
    ]


def test_every_lender_of_the_demo_gains():
    assert min(gains(0)) > 1.0

"""The counterexamples of docs/reference/errata.md and the table of docs/guarantee.md."""

import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.papers.order_measures import gamma
from opboost_ops.domain import Domain, DomainMap
from opboost_ops.mechanisms import (
    AdjMap,
    BucketResponse,
    GeneralisedResponse,
    Geometric,
    GlobalMap,
    LocalMap,
    Mechanism,
    Piecewise,
)
from opboost_ops.privacy.loss import loss_curve
from tests.unit.mechanisms.test_designed import made

DOCS = Path(__file__).parents[3] / "docs"
TEN = Domain(1, 10)


@pytest.mark.parametrize(("alpha", "loss"), [(1.0, 1.560), (10.0, 2.025)])
def test_adj_map_breaks_its_nominal_loss_at_an_edge(alpha: float, loss: float) -> None:
    mechanism = AdjMap(epsilon=1, theta=4, alpha=alpha)
    table = mechanism.channel(TEN).probabilities()
    across = np.abs(np.log(table[3] / table[4])).max()
    assert across > 1
    assert loss_curve(mechanism, TEN).loss[0] == pytest.approx(loss, abs=5e-4)
    assert f"{loss:.3f}" in (DOCS / "reference" / "errata.md").read_text()


def test_half_of_the_same_partition_is_no_lower_bound() -> None:
    exact = gamma(AdjMap(epsilon=5, theta=2, alpha=10).channel(TEN))[0]
    assert exact == pytest.approx(0.317, abs=5e-4)
    assert exact < 0.493
    assert "bound is 0.493; enumerated, the order is kept with probability 0.317" in (
        (DOCS / "reference" / "errata.md").read_text().replace("\n", " ")
    )


def test_bounds_of_the_data_move_everybody() -> None:
    values, changed = np.arange(10.0), np.array([*range(9), 90.0])
    before = DomainMap(TEN, (values.min(), values.max())).encode(values)
    after = DomainMap(TEN, (changed.min(), changed.max())).encode(changed)
    moved = (before != after)[:9].sum()
    declared = DomainMap(TEN, (0, 100))
    assert (declared.encode(values)[:9] == declared.encode(changed)[:9]).all()
    assert moved >= 7
    words = {7: "seven", 8: "eight", 9: "nine"}
    text = (DOCS / "reference" / "errata.md").read_text()
    assert f"moves {words[int((before != after).sum())]} of ten" in text


def test_the_table_of_the_guarantee() -> None:
    mechanisms: list[Mechanism] = [
        GlobalMap(epsilon=1),
        Geometric(epsilon=1),
        made(epsilon=1, most=4),
        AdjMap(epsilon=1, theta=2),
        AdjMap(epsilon=1, theta=4),
        AdjMap(epsilon=1, theta=4, alpha=10),
        LocalMap(epsilon=1, theta=4),
        BucketResponse(epsilon=1, buckets=5),
        GeneralisedResponse(epsilon=1),
        Piecewise(epsilon=1),
    ]
    text = (DOCS / "guarantee.md").read_text()
    rows = re.findall(r"^\| [^|]+ \| ([\d.]+|inf) \| ([\d.]+|inf) \| (holds|does not)", text, re.M)
    assert len(rows) == len(mechanisms)
    for mechanism, (first, last, holds) in zip(mechanisms, rows, strict=True):
        curve = loss_curve(mechanism, TEN)
        for written, exact in ((first, curve.loss[0]), (last, curve.loss[-1])):
            assert exact == "inf" if written == "inf" else abs(float(written) - exact) < 1.01e-3
        assert curve.certificate is (holds == "holds")

"""Order on columns: measured releases beside what the channel gives."""

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from benchmarks.papers.settings import mechanism_of, name_of
from opboost_ops.domain import Domain
from opboost_ops.mechanisms import (
    AdjMap,
    BucketResponse,
    GlobalMap,
    LocalMap,
    Mechanism,
    Piecewise,
)
from opboost_ops.privacy.loss import end_losses, loss_curve
from tests.unit.benchmarks.conftest import Quick

TEN = Domain(1, 10)


def test_quick_run_is_what_the_channels_give(quick: Quick, tmp_path: Path) -> None:
    found, text = quick("order")
    assert found["columns"] == ["credit.late_payments", "credit.months_as_customer"]
    assert len(found["rows"]) == 19
    for row in found["rows"]:
        for column, measured in row["kendall"].items():
            assert measured == pytest.approx(row["expected"][column], abs=0.02), name_of(row)
    by_name = {name_of(row): row for row in found["rows"]}
    # A released partition keeps all order between partitions; a response treats all values alike.
    near, far = by_name["Local-map, theta 2"], by_name["generalised response"]
    assert min(near["kendall"].values()) > 0.7 > 0.2 > max(far["kendall"].values())
    assert near["loss_whole"] == "inf"
    for row in found["equal"]:
        assert row[row["match"]] == pytest.approx(row["target"], rel=0.0021)
    row = by_name["Adj-map, theta 4, alpha 2"]
    table = mechanism_of(row).channel(TEN).probabilities()
    pairs = [
        (sum(table[x, i] * table[y, j] for j in range(10) for i in range(j + 1, 10)))
        for y, x in combinations(range(10), 2)
    ]
    assert min(row["gamma"]) == pytest.approx(min(pairs), abs=1e-5)
    assert row["beta_mean"] == pytest.approx(np.mean(pairs), abs=1e-5)
    links = re.findall(r"\]\(figures/(.+?)\)", text)
    assert len(links) == 3
    assert all((tmp_path / link).stat().st_size > 1000 for link in links)
    same = next(r for r in found["equal"] if (r["match"], r["target"]) == ("loss_1", 0.5))
    mean = np.mean(list(same["expected"].values()))
    assert f"| Global-map | {mean:.3f} |" in text


@pytest.mark.parametrize(
    "mechanism",
    [
        GlobalMap(epsilon=0.7),
        AdjMap(epsilon=0.7, theta=4, alpha=10),
        LocalMap(epsilon=0.7, theta=3),
        BucketResponse(epsilon=1.5, buckets=4),
        Piecewise(epsilon=1.5),
    ],
    ids=lambda m: m.name,
)
def test_losses_at_both_ends_are_those_of_the_curve(mechanism: Mechanism) -> None:
    curve = loss_curve(mechanism, TEN).loss
    assert end_losses(mechanism.channel(TEN)) == (float(curve[0]), float(curve[-1]))

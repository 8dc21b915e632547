"""Range queries: answers against counting, estimates against algebra, errors against theory."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.papers import ahead, estimators, ranges
from benchmarks.papers.settings import name_of
from opboost_ops.domain import Domain
from opboost_ops.mechanisms import BucketResponse, GlobalMap, Piecewise
from tests.unit.benchmarks.conftest import Quick

EIGHT = Domain(1, 8)
TRUTH = np.array([50.0, 0, 10, 40, 30, 0, 20, 50])


def test_inverse_undoes_the_channel() -> None:
    channel = GlobalMap(epsilon=0.5).channel(EIGHT)
    unbiased, condition = estimators.inverse(channel)
    assert np.allclose(unbiased @ channel.probabilities().T, np.eye(8))
    assert condition == pytest.approx(np.linalg.cond(channel.probabilities()))
    buckets = BucketResponse(epsilon=0.5, buckets=4).channel(EIGHT)
    unbiased, _ = estimators.inverse(buckets)
    found = unbiased @ (buckets.probabilities().T @ TRUTH)
    assert np.allclose(found, np.repeat(TRUTH.reshape(4, 2).mean(axis=1), 2))
    # A law that is nearly flat after rounding cannot be undone in double precision.
    assert estimators.inverse(Piecewise(epsilon=0.01).channel(Domain(1, 64)))[1] > 1e10


def test_quick_run(quick: Quick, tmp_path: Path) -> None:
    found, text = quick("range-query")
    assert {name_of(r) for r in found["rows"] if r["loss_whole"] == "inf"} == {
        "Local-map, theta 2",
        "Local-map, theta 4",
    }
    for row in found["equal"]:
        assert row[row["match"]] == pytest.approx(row["target"], rel=0.0021)
    global_map = found["rows"][0]
    assert global_map["likely"] < global_map["direct"] < found["blind"]["normal"]
    assert [line["epsilon"] for line in found["ahead"]] == [0.16, 0.64, 1.0, 4.0, 16.0]
    assert found["ahead"][4]["error"] < found["ahead"][1]["error"] < found["blind"]["normal"]
    assert "AHEAD (Du et al., 2021), 10 runs" in text
    assert f"| 1 | {found['ahead'][2]['error']:.1e} | " in text
    assert "](figures/evaluation-range_query-normal.svg)" in text
    assert (tmp_path / "evaluation-range_query-normal.svg").stat().st_size > 1000
    assert f"| Global-map | {found['equal'][0]['direct']:.1e}, " in text


def test_ahead_errs_as_its_noise_says() -> None:
    """Two values: one node of each kind, whose frequency has the encoding's variance."""
    values = np.repeat([0, 1], [3000, 1000])
    first = ranges.Queries(np.array([0]), np.array([0]))
    secrets = [bytes([i]) * 32 for i in range(200)]
    shares = [ahead.grown(values, 2, 1.0, secret).answers(first)[0] for secret in secrets]
    assert np.mean(shares) == pytest.approx(0.75, abs=0.01)
    # Both bits have the noise of 4 e / (e - 1)^2 / n; their difference is kept by the sum of 1.
    wanted = np.sqrt(4 * np.e / (np.e - 1) ** 2 / 4000 / 2)
    assert 0.7 * wanted < np.std(shares) < 1.4 * wanted

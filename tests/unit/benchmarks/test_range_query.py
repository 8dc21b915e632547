"""Range queries: answers against counting, estimates against algebra, errors against theory."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.papers import ahead, estimators, ranges
from benchmarks.papers.settings import name_of
from opboost_ops.domain import Domain
from opboost_ops.mechanisms import BucketResponse, GlobalMap, LocalMap, Piecewise
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


def test_likely_counts_are_counts_and_nearer_than_what_was_released() -> None:
    channel = GlobalMap(epsilon=1.0).channel(Domain(1, 40))
    truth = 1000 * np.exp(-(((np.arange(40) - 15) / 6) ** 2))
    seen = channel.probabilities().T @ truth[:, None]
    found = estimators.likely(channel, seen)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(truth.sum())
    assert np.abs(found[:, 0] - truth).sum() < 0.3 * np.abs(seen[:, 0] - truth).sum()
    # Nobody is in the last partition, which Local-map shows.
    local = LocalMap(epsilon=0.1, theta=4).channel(EIGHT)
    half = local.probabilities().T @ np.array([[5.0, 1, 2, 3, 0, 0, 0, 0]]).T
    assert estimators.likely(local, half).sum() == pytest.approx(11)


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


PUBLIC = b"a public secret for the tests..."


def test_ahead_grows_where_people_are_and_finds_them_without_noise() -> None:
    """At a large epsilon it is counting; at a small one it hardly splits."""
    values = np.repeat(np.arange(64), [400] * 8 + [0] * 48 + [50] * 8)
    truth = np.bincount(values, minlength=64).astype(float)
    asked = ranges.Queries.random(64, 500)
    tree = ahead.grown(values, 64, 20.0, PUBLIC)
    # Each level asks a sixth of the people: what is left is the sampling of groups.
    off = tree.answers(asked) - asked.answers(truth[:, None])[:, 0] / len(values)
    assert np.abs(off).max() < 0.1
    assert 16 <= tree.leaves < 40
    assert ahead.grown(values, 64, 0.1, PUBLIC).leaves < tree.leaves / 2
    again = ahead.grown(values, 64, 20.0, PUBLIC)
    assert np.array_equal(tree.answers(asked), again.answers(asked))


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

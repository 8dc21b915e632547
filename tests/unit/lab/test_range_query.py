"""Range queries: answers against counting, estimates against algebra, errors against theory."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from opboost_ops.cli import app
from opboost_ops.domain import Domain
from opboost_ops.lab import ahead, estimators, range_query, range_query_section, ranges
from opboost_ops.lab.settings import name_of
from opboost_ops.mechanisms import BucketResponse, GlobalMap, LocalMap, Piecewise

EIGHT = Domain(1, 8)
TRUTH = np.array([50.0, 0, 10, 40, 30, 0, 20, 50])


def test_answers_count_the_rows_of_each_range() -> None:
    queries = ranges.Queries.random(8, 200)
    counts = np.stack([TRUTH, TRUTH[::-1]], axis=1)
    found = queries.answers(counts)
    for i, (first, last) in enumerate(zip(queries.first, queries.last, strict=True)):
        assert found[i].tolist() == counts[first : last + 1].sum(axis=0).tolist()
    assert queries.first.min() == 0
    assert queries.last.max() == 7
    assert (queries.first == queries.last).any()


def test_inverse_undoes_the_channel() -> None:
    channel = GlobalMap(epsilon=0.5).channel(EIGHT)
    unbiased, condition = estimators.inverse(channel)
    assert np.allclose(unbiased.matrix @ channel.probabilities().T, np.eye(8))
    assert condition == pytest.approx(np.linalg.cond(channel.probabilities()))
    buckets = BucketResponse(epsilon=0.5, buckets=4).channel(EIGHT)
    unbiased, _ = estimators.inverse(buckets)
    found = unbiased.estimate(buckets.probabilities().T @ TRUTH[:, None])[:, 0]
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


def test_quick_run_errs_as_the_channels_say(tmp_path: Path) -> None:
    options = ["--quick", "--json", "--work", str(tmp_path)]
    done = CliRunner().invoke(app, ["evaluate", "range-query", *options])
    found = json.loads(done.stdout)
    checked = 0
    for row in [*found["rows"], *found["equal"]]:
        for name in ("direct", "inverse"):
            if row[name] is not None:
                # Mean squared errors of ten releases: their own spread says how near they must be.
                near = 5 * max(row[f"{name}_sd"], 0.02 * row[name]) / 10**0.5
                assert row[name] == pytest.approx(row[f"{name}_expected"], abs=near), name_of(row)
                checked += 1
    assert checked >= 25
    assert {name_of(r) for r in found["rows"] if r["loss_whole"] == "inf"} == {
        "Local-map, theta 2",
        "Local-map, theta 4",
    }
    for row in found["equal"]:
        assert row["loss_whole"] == pytest.approx(8.0, rel=0.0021)
    global_map = found["rows"][0]
    assert global_map["likely"] < global_map["direct"] < found["blind"]["normal"]
    assert [line["epsilon"] for line in found["ahead"]] == [0.64, 8.0]
    assert found["ahead"][1]["error"] < found["ahead"][0]["error"] < found["blind"]["normal"]
    text = range_query_section.section(found, tmp_path)
    assert "AHEAD (Du et al., 2021), 10 runs" in text
    assert "](figures/evaluation-range_query-normal.svg)" in text
    assert (tmp_path / "evaluation-range_query-normal.svg").stat().st_size > 1000
    assert f"| Global-map | {global_map['direct']:.1e}, " in text


def test_released_counts_are_redrawn_by_repeat_and_kept_by_value() -> None:
    """Another secret, other noise: with hardly any noise the counts are the truth itself."""
    values = np.repeat(EIGHT.values(), TRUTH.astype(int))
    noisy, still = (
        range_query._released(
            values,
            {**range_query.method("global_map"), "epsilon": epsilon},
            EIGHT,
            GlobalMap(epsilon=epsilon).channel(EIGHT),
            3,
        )
        for epsilon in (0.5, 100.0)
    )
    assert noisy.sum(axis=0).tolist() == [200, 200, 200]
    assert len({tuple(column) for column in noisy.T}) == 3
    assert (still == TRUTH[:, None]).all()


def test_ahead_grows_where_people_are_and_finds_them_without_noise() -> None:
    """At a large epsilon it is counting; at a small one it hardly splits."""
    values = np.repeat(np.arange(64), [400] * 8 + [0] * 48 + [50] * 8)
    truth = np.bincount(values, minlength=64)
    secret = b"a public secret for the tests..."
    found, leaves = ahead.estimated(values, 64, 20.0, secret)
    assert found.sum() == pytest.approx(len(values))
    # Each level asks a sixth of the people: what is left is the sampling of groups.
    assert np.abs(np.cumsum(found) - np.cumsum(truth)).max() < 0.05 * len(values)
    assert 16 <= leaves < 40
    coarse = ahead.estimated(values, 64, 0.1, secret)[1]
    assert coarse < leaves / 2
    again, _ = ahead.estimated(values, 64, 20.0, secret)
    assert np.array_equal(found, again)


def test_ahead_errs_as_its_noise_says() -> None:
    """Two values: one node of each kind, whose frequency has the encoding's variance."""
    values = np.repeat([0, 1], [3000, 1000])
    secrets = [bytes([i]) * 32 for i in range(200)]
    shares = [ahead.estimated(values, 2, 1.0, secret)[0][0] / 4000 for secret in secrets]
    assert np.mean(shares) == pytest.approx(0.75, abs=0.01)
    # Both bits have the noise of 4 e / (e - 1)^2 / n; their difference is kept by the sum of 1.
    wanted = np.sqrt(4 * np.e / (np.e - 1) ** 2 / 4000 / 2)
    assert 0.7 * wanted < np.std(shares) < 1.4 * wanted

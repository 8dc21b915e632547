"""FederBoost's vertical experiment: the command in its quick form, the section, the summary."""

from pathlib import Path
from typing import Any

import numpy as np

from opboost_ops.domain import quantile_edges
from tests.unit.benchmarks.conftest import Quick


def auc(found: Any, edges: str, epsilon: float = 0.0) -> float:
    (line,) = (x for x in found["rows"] if (x["edges"], x["epsilon"]) == (edges, epsilon))
    return float(line["auc"])


def test_noise_costs_what_it_must_and_buckets_hardly_anything(quick: Quick, tmp_path: Path) -> None:
    found, text = quick("federboost")
    best = auc(found, "centralised")
    assert auc(found, "alone") < best - 20
    for edges in ("equal_count", "declared"):
        clear, weak, strong = (auc(found, edges, e) for e in (0.0, 4.0, 1.0))
        assert best - 1.5 < clear
        assert strong + 5 < weak < clear
    assert (tmp_path / "evaluation-federboost.svg").stat().st_size > 10_000
    assert "figures/evaluation-federboost.svg" in text
    assert f"{auc(found, 'equal_count', 4.0):.2f}" in text
    assert "the paper's configuration, no guarantee" in text


def test_equal_counts_keep_ties_together_and_leave_no_bucket_empty() -> None:
    rng = np.random.default_rng(0)
    for values in (
        rng.normal(size=999),
        np.repeat([0.0, 1, 2], [940, 40, 20]),
        np.repeat([0.0, 1, 2], [10, 20, 970]),
        rng.integers(0, 30, 500).astype(float),
    ):
        for q in (2, 16, 64):
            edges = np.array(quantile_edges(values, q))
            counts = np.bincount(np.searchsorted(edges, values), minlength=len(edges) + 1)
            assert len(edges) < q
            assert counts.min() > 0
            # A value has one bucket; beyond its share, a bucket holds no more than its last value.
            largest = np.unique(values, return_counts=True)[1].max()
            assert counts.max() <= max(len(values) / q + 1 + largest, largest * 2)

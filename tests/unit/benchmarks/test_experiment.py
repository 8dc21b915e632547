"""Experiments go on where they were; the accuracy workload trains on what it says."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from benchmarks.papers.experiment import Options
from benchmarks.papers.measurements import measure_all
from benchmarks.papers.two_parties import TwoParties
from opboost_ops.extras.datasets.tables import Dataset, row_ids
from opboost_ops.learning.boosters import trainer
from opboost_ops.learning.boosters.backend import Frame
from opboost_ops.mechanisms import GlobalMap

CELLS = [{"method": m, "epsilon": e, "seed": s} for m in "ab" for e in (0.5, 1) for s in range(3)]


def figure(cell: Mapping[str, Any]) -> dict[str, float]:
    return {"metric": cell["epsilon"] * 10 + cell["seed"]}


def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    asked: list[Mapping[str, Any]] = []

    def measure(cell: Mapping[str, Any]) -> dict[str, float]:
        if len(asked) == 5:
            raise KeyboardInterrupt
        asked.append(cell)
        return figure(cell)

    options = Options(3, work=tmp_path / "runs")
    with pytest.raises(KeyboardInterrupt):
        measure_all(CELLS, measure, "x", options)
    assert pl.read_parquet(tmp_path / "runs" / "x.parquet").height == 5
    found = measure_all(CELLS, lambda cell: asked.append(cell) or figure(cell), "x", options)
    assert asked == CELLS
    assert found.select("metric").to_series().to_list() == [figure(c)["metric"] for c in CELLS]
    again = measure_all(CELLS[::-1], lambda _: pytest.fail("measured again"), "x", options)
    assert again.equals(found.reverse())


def made_up(rows: int = 400) -> Dataset:
    rng = np.random.default_rng(0)
    x, kind = rng.random((rows, 2)), rng.integers(0, 3, rows)
    label = (x[:, 0] + 0.3 * kind + 0.1 * rng.normal(size=rows) > 0.8).astype(np.int64)
    ids = row_ids("r", rows)
    return Dataset(
        name="made_up",
        task="binary",
        tables={
            "a": pl.DataFrame({"id": ids, "kind": np.array(list("uvw"))[kind], "y": label}),
            "b": pl.DataFrame({"id": ids, "p": x[:, 0], "q": x[:, 1]}),
        },
        label_holder="a",
        label={"column": "y", "task": "binary", "classes": [0, 1]},
        features={
            "a": {"kind": {"type": "nominal"}},
            "b": {"p": {"bounds": [0, 1]}, "q": {"bounds": [0, 1]}},
        },
        holdout=0.25,
        epsilon=1.0,
        domain=(1, 10),
    )


@pytest.mark.parametrize("booster", ["lightgbm", "xgboost"])
def test_hardly_any_noise_is_training_on_the_domain_itself(booster: Any) -> None:
    table = TwoParties(made_up(), "linear", held_out=0.25, seed=1)
    frame, test = table.frames("global_map", GlobalMap(epsilon=100))
    assert frame.names == ("kind", "p", "q")
    assert (frame.matrix.shape, test.shape) == ((300, 3), (100, 3))
    parameters = table.parameters(0, trees=10, trainer=booster)
    found = trainer.predict(table.trained(frame, parameters), test)
    # Only the lower bound itself is laid on 1: the values 2 to 10 have the ranks 1 to 9.
    assert set(frame.matrix[:, 1]) == set(range(1, 10))
    values = np.add(frame.matrix, [0, 1, 1])
    plain = Frame(frame.names, values, frame.categorical, frame.ranked)
    expected = trainer.predict(trainer.train(plain, table.label[:300], parameters), test)
    assert np.array_equal(found, expected)
    assert table.evaluated(found)["metric"] > 0.8


def test_noise_raw_columns_and_the_split_are_what_the_seed_says() -> None:
    table, again = (TwoParties(made_up(), "linear", held_out=0.25, seed=1) for _ in range(2))
    other = TwoParties(made_up(), "linear", held_out=0.25, seed=2)
    noisy = [t.frames("global_map", GlobalMap(epsilon=0.5))[0].matrix for t in (table, again)]
    assert np.array_equal(*noisy)
    assert not np.array_equal(table.label, other.label)
    raw, _ = table.frames("raw")
    assert raw.ranked == ()
    assert 0 < raw.matrix[:, 1].min() < raw.matrix[:, 1].max() < 1
    alone, _ = table.frames("alone")
    assert alone.names == ("kind",)
    equal = TwoParties(made_up(), "quantile", held_out=0.25, seed=1)
    cells = equal.frames("global_map", GlobalMap(epsilon=100))[0].matrix[:, 1]
    counts = np.bincount(cells.astype(int))[1:]
    assert counts.max() - counts.min() <= math.ceil(0.05 * 300)

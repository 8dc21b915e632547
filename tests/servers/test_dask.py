"""Training on a real Dask cluster: the label holder's workers, each with some of the rows."""

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import LocalCluster

from opboost_ops.errors import ConfigError
from opboost_ops.learning.boosters import dask_engine, lightgbm_backend, trainer
from opboost_ops.learning.boosters.backend import Frame, Parameters
from opboost_ops.learning.boosters.dask_engine import DaskEngine
from opboost_ops.learning.boosters.trainer import model_of, predict
from opboost_ops.pipeline.inputs.model_columns import frame_of
from opboost_ops.pipeline.stage import Home
from tests.federation import Workspace
from tests.unit.learning.boosters.rank_models import rows_of

ROWS = 6000

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    with LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
    ) as started:
        yield started.scheduler_address


def rows(seed: int = 0) -> tuple[Frame, np.ndarray]:
    """Rows in the order of one feature's ranks: the worst that can happen to a worker's bins."""
    rng = np.random.default_rng(seed)
    ranks, own = np.sort(rng.integers(1, 41, ROWS)), rng.normal(size=ROWS)
    other, kinds = rng.integers(1, 200, ROWS), rng.integers(0, 4, ROWS)
    matrix = np.column_stack([ranks, own, other, kinds]).astype(np.float64)
    label = (ranks / 40 + own + (kinds == 2) + rng.normal(size=ROWS) > 0.8).astype(np.float64)
    names = ("bank.income", "credit.age", "shop.orders", "credit.job")
    return Frame(names, matrix, ("credit.job",), ("bank.income", "shop.orders")), label


def test_no_two_ranks_share_a_bin_wherever_their_rows_are(cluster: str) -> None:
    frame, label = rows()
    parameters = Parameters("binary", 2, trees=1, learning_rate=0.1, depth=4, seed=0)
    text = DaskEngine(cluster).train(rows_of(frame, label), parameters)
    # All rows are in the sample: the same tree as in one process, to the bit.
    here = trainer.train(frame, label, parameters)
    assert model_of(text).numeric_splits() == model_of(here).numeric_splits()
    assert np.array_equal(predict(text, frame.matrix), predict(here, frame.matrix))
    # After some trees the order of sums has decided between splits that are nearly as good.
    parameters = dataclasses.replace(parameters, trees=20)
    text = DaskEngine(cluster).train(rows_of(frame, label), parameters)
    splits = model_of(text).numeric_splits()
    # From both workers' rows: one has the lower half of the ranks, one the upper.
    assert min(splits["bank.income"]) < 15 < 25 < max(splits["bank.income"])
    here = trainer.train(frame, label, parameters)
    hits = [np.mean((predict(model, frame.matrix) > 0.5) == label) for model in (text, here)]
    assert hits[0] > hits[1] - 0.01
    assert not any(word in text for word in ("machines", "listen_port", "127.0.0.1"))


def test_ranks_that_no_row_of_the_sample_has_are_bins_of_their_own(
    cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, label = rows()
    parameters = Parameters("binary", 2, trees=20, learning_rate=0.1, depth=4, seed=0)
    monkeypatch.setattr(lightgbm_backend, "SAMPLE_ROWS", 5)
    text = DaskEngine(cluster).train(rows_of(frame, label), parameters)
    splits = model_of(text).numeric_splits()["bank.income"]
    assert len({math.floor(split) for split in splits if split > 20}) > 8


def test_weights_go_with_their_rows(cluster: str) -> None:
    frame, label = rows()
    weight = np.where(frame.matrix[:, 0] > 20, 0.0, 2.0)
    weighted = dataclasses.replace(frame, weight=weight)
    parameters = Parameters("binary", 2, trees=1, learning_rate=0.1, depth=3, seed=0)
    text = DaskEngine(cluster).train(rows_of(weighted, label), parameters)
    here = trainer.train(weighted, label, parameters)
    assert model_of(text).numeric_splits() == model_of(here).numeric_splits()
    assert (
        model_of(text).numeric_splits()
        != model_of(trainer.train(frame, label, parameters)).numeric_splits()
    )


def test_what_cannot_be_reached_may_be_tried_again() -> None:
    frame, label = rows()
    parameters = Parameters("binary", 2, trees=2, learning_rate=0.1, depth=2, seed=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dask_engine, "_CONNECT_SECONDS", 1)
        with pytest.raises(ConnectionError, match="Dask cluster failed"):
            DaskEngine("tcp://127.0.0.1:1").train(rows_of(frame, label), parameters)


def test_a_whole_run_on_a_cluster_by_its_address(
    cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace.write(tmp_path / "federation", training={"trees": 10})
    workspace.declare("credit/site.yaml", dask="env:CLUSTER")
    workspace.known_to(monkeypatch)
    workspace.until("train", "credit")
    with pytest.raises(ConfigError, match="CLUSTER is not set"):
        workspace.step("credit", "train")
    monkeypatch.setenv("CLUSTER", cluster)
    first = workspace.step("credit", "train")
    home = Home(workspace.home("credit"))
    partial = home.read("partial_model.txt").decode()
    # Cleared, it is the same model without another training.
    monkeypatch.setenv("CLUSTER", "tcp://127.0.0.1:1")
    assert workspace.step("credit", "train")["trees"] == first["trees"]
    assert home.read("partial_model.txt").decode() == partial
    summaries = workspace.all()
    assert summaries["credit.evaluate"]["metrics"]["federated_desensitised"]["auc"] > 0.5

    # On ranks and on values the predictions are the same, to the bit.
    facts: dict[str, Any] = home.json("frame")
    frame = frame_of(home.table("frame"), facts)
    values = frame.matrix.copy()
    for party in workspace.declared.feature_holders:
        table = Home(workspace.home(party)).json("rank_values")
        for name, distinct in table.items():
            at = frame.names.index(f"{party}.{name}")
            values[:, at] = np.array(distinct)[frame.matrix[:, at].astype(int) - 1]
    model = home.read("model.txt").decode()
    assert np.array_equal(predict(partial, frame.matrix), predict(model, values))

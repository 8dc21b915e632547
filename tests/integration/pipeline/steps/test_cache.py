"""Model and baseline are cached, and are what they would be if they were made again."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from opboost_ops.learning.boosters import trainer
from opboost_ops.pipeline.home import cached_files
from tests.commands import printed
from tests.federation import SECOND_RUN, Workspace


def kept(workspace: Workspace) -> Path:
    return workspace.home("credit").parent / "alone.npy"


def models_trained(workspace: Workspace, stage: str) -> int:
    """How many models a stage trains by itself; those of trials do not count."""
    trained = 0
    real = trainer.train

    def train(*arguments: Any, **more: Any) -> str:
        nonlocal trained
        trained += 1
        return real(*arguments, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, "train", train)
        workspace.step("credit", stage)
    return trained


def evaluated(workspace: Workspace) -> tuple[Any, int]:
    """What an evaluation says of the baseline, and how many models it has trained."""
    trained = models_trained(workspace, "evaluate")
    found = json.loads((workspace.home("credit") / "evaluation.json").read_text())
    return (found["metrics"]["label_holder_alone"], found["alone"]), trained


def test_on_unchanged_rows_nothing_is_trained(
    workspace: Workspace, trained_once: Workspace
) -> None:
    first = json.loads((trained_once.home("credit") / "evaluation.json").read_text())
    before = kept(workspace).read_bytes()
    # Another party's value is none of its own.
    workspace.edit_table("bank", lambda t: t.with_columns(pl.col("income") // 2))
    workspace.until("evaluate")
    found, trained = evaluated(workspace)
    assert found == (first["metrics"]["label_holder_alone"], first["alone"])
    assert trained == 0
    assert kept(workspace).read_bytes() == before
    for damage in (b"", b"\x93NUMPY and no more", None):
        kept(workspace).unlink() if damage is None else kept(workspace).write_bytes(damage)
        _, trained = evaluated(workspace)
        assert trained > 0, "what is damaged is made again"
        assert kept(workspace).read_bytes() == before


@pytest.mark.slow
def test_a_changed_value_of_its_own_makes_both_again(workspace: Workspace) -> None:
    workspace.edit_table("credit", lambda t: t.with_columns(pl.col("amount") * 0.9))
    workspace.until("train")
    assert models_trained(workspace, "train") == 1
    workspace.until("evaluate")
    _, trained = evaluated(workspace)
    assert trained > 0


@pytest.mark.slow
def test_a_later_run_on_unchanged_rows_takes_the_last_model(
    workspace: Workspace, trained_once: Workspace
) -> None:
    first = (trained_once.home("credit") / "partial_model.txt").read_bytes()
    workspace.run = SECOND_RUN
    workspace.until("train")
    for damaged in (False, True):
        if damaged:
            (workspace.home("credit").parent / "trained.model").write_bytes(b"tree")
        assert models_trained(workspace, "train") == damaged
        assert (workspace.home("credit") / "partial_model.txt").read_bytes() == first


def test_nothing_that_is_cached_outlives_a_forgotten_person(workspace: Workspace) -> None:
    assert cached_files(workspace.site("credit").home)
    printed("forget", workspace.folder / "credit", "nobody")
    assert not cached_files(workspace.site("credit").home)
    # Nobody was in its tables, so the model is the same; only the work is done again.
    workspace.run = SECOND_RUN
    workspace.until("train")
    assert models_trained(workspace, "train") == 1

"""The label holder's own baseline is kept, and is what it would be if it were made again."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from opboost_ops.boosting import trainer
from tests.federation import SECOND_RUN, Workspace


@pytest.fixture
def second(trained_once: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    copy = trained_once.copy(tmp_path / "federation", SECOND_RUN)
    copy.known_to(monkeypatch)
    return copy


def kept(workspace: Workspace) -> Path:
    return workspace.home("credit").parent / "alone.npy"


def evaluated(workspace: Workspace) -> tuple[Any, int]:
    """What an evaluation says of the baseline, and how many models it has trained."""
    trained = 0
    real = trainer.train

    def train(*arguments: Any, **more: Any) -> str:
        nonlocal trained
        trained += 1
        return real(*arguments, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, "train", train)
        workspace.step("credit", "evaluate")
    found = json.loads((workspace.home("credit") / "evaluation.json").read_text())
    return (found["metrics"]["label_holder_alone"], found["alone"]), trained


def test_on_unchanged_rows_nothing_is_trained(second: Workspace, trained_once: Workspace) -> None:
    first = json.loads((trained_once.home("credit") / "evaluation.json").read_text())
    before = kept(second).read_bytes()
    # Another party's value is none of its own.
    second.edit_table("bank", lambda t: t.with_columns(pl.col("income") // 2))
    second.until("evaluate")
    found, trained = evaluated(second)
    assert found == (first["metrics"]["label_holder_alone"], first["alone"])
    assert trained == 0
    assert kept(second).read_bytes() == before
    for damage in (b"", b"\x93NUMPY and no more", None):
        kept(second).unlink() if damage is None else kept(second).write_bytes(damage)
        _, trained = evaluated(second)
        assert trained > 0, "what is damaged is made again"
        assert kept(second).read_bytes() == before


def test_a_changed_value_of_its_own_makes_it_again(second: Workspace) -> None:
    second.edit_table("credit", lambda t: t.with_columns(pl.col("amount") * 0.9))
    second.until("evaluate")
    _, trained = evaluated(second)
    assert trained > 0

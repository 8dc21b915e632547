"""Two text classes: which is positive is declared, and said wherever scores are."""

import json
from pathlib import Path
from typing import Any

import pytest

from opboost_ops.pipeline.stage import Home
from tests.federation import SECOND_RUN, Workspace
from tests.integration.pipeline.scoring_data import NAME, dataset


def undeclared(workspace: Workspace) -> None:
    def change(data: Any) -> None:
        del data["parties"]["a"]["label"]["classes"]

    workspace.edit_yaml("federation.yaml", change)


def test_text_classes_that_nobody_ordered_are_refused_before_anything_is_published(
    tmp_path: Path,
) -> None:
    workspace = Workspace.write(tmp_path / "federation", dataset("binary"))
    undeclared(workspace)
    step, error = workspace.first_failure()
    assert step == "a.check_table"
    assert "which of its two classes is positive" in str(error)
    assert "the positive one last" in str(error)
    assert [p for p in workspace.published() if not p.startswith("plan/")] == []


def test_a_federation_that_has_a_model_keeps_its_order_with_a_warning(
    toys_once: Workspace,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    workspace = toys_once.copy(tmp_path / "older", SECOND_RUN)
    undeclared(workspace)
    workspace.open()
    with caplog.at_level("WARNING", logger="opboost_ops"):
        workspace.step("a", "check_table")
    assert "the last in alphabetical order is the positive one" in caplog.text
    for value in ("yes", "no,", "'no'"):
        assert value not in caplog.text


def test_a_declared_order_holds_and_the_card_says_so(toys_once: Workspace, tmp_path: Path) -> None:
    """Turned round, the probabilities are those of the other class."""
    card = json.loads(
        (toys_once.folder / "a/models" / NAME / toys_once.run / "card.json").read_bytes()
    )
    assert card["classes"] == ["no", "yes"]
    page = (toys_once.folder / "a/models" / NAME / toys_once.run / "card.html").read_text()
    assert "the positive class yes" in page
    workspace = toys_once.copy(tmp_path / "turned", SECOND_RUN)

    def turn(data: Any) -> None:
        data["parties"]["a"]["label"]["classes"] = ["yes", "no"]

    workspace.edit_yaml("federation.yaml", turn)
    workspace.until("assemble", "a")
    workspace.step("a", "assemble")
    before, after = (Home(w.home("a")).table("frame") for w in (toys_once, workspace))
    assert (before.column("label").to_numpy() + after.column("label").to_numpy() == 1).all()

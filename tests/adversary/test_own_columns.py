"""The label holder, too, has agreed to every column of its own table that a plan uses."""

import re
from pathlib import Path
from typing import Any

import pytest

from opboost_ops.config.agreement import free_entries
from opboost_ops.errors import PolicyError
from tests.adversary.kit import forge_plan, of_run, refusal
from tests.federation import Workspace

DOCUMENT = Path(__file__).parents[2] / "docs" / "agreement.md"


def weighted(data: Any) -> None:
    data["training"]["weight_column"] = "secret_salary"


def test_whoever_edits_the_federation_file_names_no_further_column(workspace: Workspace) -> None:
    workspace.edit_yaml("federation.yaml", weighted, agree=False)
    with pytest.raises(PolicyError, match="credit refused run"):
        workspace.open()
    assert workspace.published() == []
    assert "training" in workspace.reason("credit")


def test_a_plan_with_such_a_column_is_refused_by_everybody(workspace: Workspace) -> None:
    workspace.open()
    forge_plan(workspace, weighted)
    for party in ("credit", "bank"):
        assert "refused run" in refusal(workspace, party)
    assert of_run(workspace, "bank") == []


def test_the_document_lists_what_may_change_without_agreement() -> None:
    listed = DOCUMENT.read_text(encoding="utf-8").partition("Only these entries may change")[2]
    both, _, vertical = listed.partition("\n\n")[0].partition("in vertical learning also")
    every = free_entries("horizontal")
    assert re.findall(r"`([^`]+)`", both) == list(every)
    assert re.findall(r"`([^`]+)`", vertical) == [
        path for path in free_entries("vertical") if path not in every
    ]

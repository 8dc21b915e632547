"""Champions in MLflow: what fails there changes nothing else. tests/test_wheel.py has the rest."""

import logging
from typing import Any

import pytest

from opboost_ops import api
from opboost_ops.run.inbox import Run
from opboost_ops.run.runner import run_stage
from tests.federation import FIRST_RUN, Workspace


def test_a_champion_stays_champion_where_mlflow_cannot_be_asked(
    workspace: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    def asks(data: dict[str, Any]) -> None:
        data["tables"]["credit_scoring"]["models_to"] = {"at": "env:NOWHERE"}

    workspace.edit_yaml("credit/site.yaml", asks)
    assert api.models(workspace.file).promote(FIRST_RUN) == FIRST_RUN
    assert "the environment variable NOWHERE is not set" in caplog.text
    caplog.clear()
    told = run_stage("credit", "announce_champion", Run("credit_scoring", FIRST_RUN, "credit"))
    assert told["champion"] and "not in MLflow" in caplog.text
    assert api.models(workspace.file).champion == FIRST_RUN

"""Champions in MLflow: what fails there changes nothing else. tests/test_wheel.py has the rest."""

import logging
from pathlib import Path
from typing import Any

import pytest

from opboost_ops import api
from opboost_ops.pipeline.party.inbox import Run
from opboost_ops.pipeline.runner.runner import run_stage
from tests.federation import FIRST_RUN, Workspace


def test_a_champion_stays_champion_where_mlflow_cannot_be_asked(
    workspace: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    def asks(data: dict[str, Any]) -> None:
        data["tables"]["credit_scoring"]["models_to"] = {"at": "env:NOWHERE"}

    workspace.edit_yaml("credit/site.yaml", asks)
    faults = api.check(workspace.file).faults
    assert [fault.where for fault in faults] == ["credit/site.yaml:models_to"]
    assert api.models(workspace.file).promote(FIRST_RUN) == FIRST_RUN
    assert "the environment variable NOWHERE is not set" in caplog.text
    caplog.clear()
    told = run_stage("credit", "announce_champion", Run("credit_scoring", FIRST_RUN, "credit"))
    assert told["champion"] and "not in MLflow" in caplog.text
    assert api.models(workspace.file).champion == FIRST_RUN


#: As MLflow prints it, with the login that a URL may have, before its process is killed.
_DIES = """
import os, sys
sys.stdout.buffer.write(b"View run at: http://me:hidden@mlflow.example/\\xff\\n")
sys.stdout.flush()
os.abort()
"""


def test_what_mlflow_prints_stays_at_home(
    workspace: Workspace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "mlflow.py").write_text(_DIES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(api.__file__).parents[2]}")
    monkeypatch.setenv("SERVER", "http://me:hidden@mlflow.example/")

    def asks(data: dict[str, Any]) -> None:
        data["tables"]["credit_scoring"]["models_to"] = {"at": "env:SERVER"}

    workspace.edit_yaml("credit/site.yaml", asks)
    assert api.models(workspace.file).promote(FIRST_RUN) == FIRST_RUN
    assert "the uploading process failed" in caplog.text and "hidden" not in caplog.text
    errors = workspace.folder / "credit" / "home" / "errors"
    assert "hidden" in (errors / "mlflow_credit_scoring.txt").read_text()

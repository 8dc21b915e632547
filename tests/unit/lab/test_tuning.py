"""The study of tuning, on a made-up table."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from opboost_ops.cli import app
from opboost_ops.lab import tuning, tuning_section
from tests.unit.lab.test_experiment import made_up


def test_a_quick_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "load", lambda _: made_up(600))
    tuning._prepared.cache_clear()
    path = tmp_path / "tuning.json"
    command = ["evaluate", "tuning", "--quick", "--work", str(tmp_path), "--summary", str(path)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    found = json.loads(path.read_text())
    assert found["command"].endswith("--quick") and found["quick"] is True
    rows = {row["mode"]: row for row in found["rows"]}
    assert set(rows) == {"desensitised", "clear"}
    for row in rows.values():
        assert row["gain"] == pytest.approx(row["tuned"] - row["default"])
        assert 0.5 < row["default"] < 1 and row["above"] + row["below"] <= 1
    assert rows["clear"]["default"] > rows["desensitised"]["default"]
    text = tuning_section.section(found, tmp_path)
    assert "powerplant | 1.28 | clear" in text
    tuning._prepared.cache_clear()

"""The study of tuning, on a made-up table."""

import pytest

from benchmarks.papers import tuning
from tests.unit.benchmarks.conftest import Quick
from tests.unit.benchmarks.test_experiment import made_up


def test_a_quick_study(quick: Quick, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "load", lambda _: made_up(600))
    tuning._prepared.cache_clear()
    found, text = quick("tuning")
    rows = {row["mode"]: row for row in found["rows"]}
    assert set(rows) == {"desensitised", "clear"}
    for row in rows.values():
        assert row["gain"] == pytest.approx(row["tuned"] - row["default"])
        assert 0.5 < row["default"] < 1 and row["above"] + row["below"] <= 1
    assert rows["clear"]["default"] > rows["desensitised"]["default"]
    assert "Desensitised rows at epsilon 1.28" in text and "| powerplant | 0." in text
    tuning._prepared.cache_clear()

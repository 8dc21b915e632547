"""The quick form of DPBoost's experiment, on a generated table."""

from pathlib import Path

from tests.unit.benchmarks.conftest import Quick


def test_quick(quick: Quick, tmp_path: Path) -> None:
    found, text = quick("dpboost")
    error = {(line["method"], line["epsilon"]): line["error"] for line in found["rows"]}
    # Noise is drawn again each time: what is asserted holds at epsilon 100 whatever is drawn.
    assert error["np", 0] < 0.23
    assert error["dpboost", 100] < 0.27
    sat_out = {line["method"]: line["filtered"] for line in found["rows"]}
    assert 0 < sat_out["dpboost"] < 0.6
    assert sat_out["seq"] == sat_out["para"] == 0
    assert "not private" in text
    assert f"{error['dpboost', 100]:.4f}" in text
    assert (tmp_path / "evaluation-dpboost.svg").is_file()

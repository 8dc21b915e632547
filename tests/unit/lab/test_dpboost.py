"""The quick form of DPBoost's experiment, on a generated table."""

import json
from pathlib import Path

from typer.testing import CliRunner

from opboost_ops.cli import app
from opboost_ops.lab.dpboost_section import section


def test_quick(tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    done = CliRunner().invoke(
        app, ["evaluate", "dpboost", "--quick", "--summary", str(out), "--json"]
    )
    assert done.exit_code == 0, done.output
    found = json.loads(out.read_text())
    error = {(line["method"], line["epsilon"]): line["error"] for line in found["rows"]}
    # Noise is drawn anew each time: what is asserted holds at epsilon 100 whatever is drawn.
    assert error["np", 0] < 0.23
    assert error["dpboost", 100] < 0.27
    sat_out = {line["method"]: line["filtered"] for line in found["rows"]}
    assert 0 < sat_out["dpboost"] < 0.6
    assert sat_out["seq"] == sat_out["para"] == 0
    assert found["time"]["dpboost"] > 0
    text = section(found, tmp_path)
    assert "not private" in text
    assert f"{error['dpboost', 100]:.4f}" in text
    pictures = sorted(path.name for path in tmp_path.glob("*.svg"))
    assert pictures == ["evaluation-dpboost-convergence.svg", "evaluation-dpboost.svg"]
    assert all(f"figures/{name}" in text for name in pictures)

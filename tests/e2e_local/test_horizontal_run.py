"""`opboost run` of a federation of horizontal learning, a process per party."""

import json
from pathlib import Path

import pytest

from opboost_ops.cli import run
from opboost_ops.errors import ConfigError
from opboost_ops.extras.datasets.generated import NAME, write_lenders
from tests.commands import opboost


@pytest.mark.slow
def test_three_processes_train_one_model(tmp_path: Path) -> None:
    file = write_lenders(tmp_path / "all", rows=600, training={"trees": 3, "depth": 2})
    code, out, err = opboost("run", file, "--json")
    assert code == 0, err
    (line,) = out.splitlines()
    assert "lender_02: tree 3 of 3" in err
    result = json.loads(line)
    parties = [f"lender_0{i}" for i in (1, 2, 3)]
    assert sorted(result["metrics"]) == parties
    models = {
        (tmp_path / "all" / party / "models" / NAME / result["run"] / "model.txt").read_bytes()
        for party in parties
    }
    assert len(models) == 1
    assert 0 < result["rows"] < 600 and result["sums"] > 1000


def test_options_of_noise_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="learning is horizontal"):
        run.run_command(dataset=NAME, epsilon=2, out=tmp_path / "all")

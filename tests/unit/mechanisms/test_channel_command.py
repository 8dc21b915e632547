"""`opboost channel` prints the very table that is sampled."""

import json
from pathlib import Path
from typing import Any

import pytest

from opboost_ops.cli.plan import channel_command
from opboost_ops.errors import ConfigError


@pytest.mark.parametrize(
    "name", ["global", "geometric", "designed", "adj", "local", "bucket", "grr", "piecewise"]
)
def test_every_mechanism_takes_every_parameter(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"epsilon": 1.0, "theta": 4, "alpha": 10.0, "buckets": 5, "most": 4.0}
    channel_command(name, upper=10, as_json=True, **options)  # type: ignore[arg-type]
    found = json.loads(capsys.readouterr().out)
    assert len(found["loss"]) == 9
    assert all(sum(map(int, row)) == 2**64 for row in found["counts"])
    assert all(abs(sum(row) - 1) < 1e-12 for row in found["probabilities"])
    assert found["certificate"] is (name not in ("adj", "local"))
    assert (found["loss"][0] == "inf") is (name == "local")


def test_an_unknown_one_and_a_domain_that_is_too_large_are_refused() -> None:
    with pytest.raises(ConfigError, match="Choose one of global"):
        channel_command("laplace")
    with pytest.raises(ConfigError, match="1000000000 values, more than the 1024"):
        channel_command("global", upper=1_000_000_000)


def test_a_designed_channel_is_kept_in_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is what was printed; a second time it is not overwritten."""
    file = tmp_path / "near-and-far.json"
    asked = {"upper": 6, "most": 2.0, "prior": "1,2,3,3,2,1", "out": file, "as_json": True}
    channel_command("designed", **asked)  # type: ignore[arg-type]
    found, kept = json.loads(capsys.readouterr().out), json.loads(file.read_text())
    assert kept["counts"] == found["counts"]
    assert found["declaration"]["table"] == file.name
    assert found["expected_cost"]["channel"] == pytest.approx(found["expected_cost"]["programme"])
    with pytest.raises(ConfigError, match="exists already"):
        channel_command("designed", **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"most": None}, "Pass --most"),
        ({"most": -1.0}, "must be from 0.001 to 1000"),
        ({"epsilon": 0.0}, "must be from 0.001 to 1000"),
        ({"cost": "cubic"}, "Choose one of absolute, squared"),
        ({"prior": "1,x"}, "not a list of numbers"),
        ({"prior": "1,2"}, "needs 10 weights"),
        ({"prior": ",".join(["nan"] * 10)}, "needs 10 weights"),
        ({"upper": 65}, "at most 64 values"),
        ({"prior": "1" + ",0" * 9}, "geometric mechanism at epsilon 0.222222"),
    ],
)
def test_what_cannot_be_designed_is_one_message(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        channel_command("designed", **{"most": 2.0, **options})

"""`opboost channel` prints the very table that is sampled."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from opboost_ops.cli.channel import command
from opboost_ops.errors import ConfigError

OPBOOST = Path(sys.executable).with_name("opboost")


def channel(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [OPBOOST, "channel", *arguments], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "name", ["global", "geometric", "designed", "adj", "local", "bucket", "grr", "piecewise"]
)
def test_every_mechanism_takes_every_parameter(name: str) -> None:
    options = {
        "lower": 1,
        "upper": 10,
        "epsilon": 1,
        "theta": 4,
        "alpha": 10,
        "buckets": 5,
        "most": 4,
    }
    flags = [text for option, value in options.items() for text in (f"--{option}", str(value))]
    done = channel(name, *flags, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found["loss"]) == 9
    assert all(sum(map(int, row)) == 2**64 for row in found["counts"])
    assert all(abs(sum(row) - 1) < 1e-12 for row in found["probabilities"])
    assert found["certificate"] is (name not in ("adj", "local"))
    assert (found["loss"][0] == "inf") is (name == "local")


def test_an_unknown_one_is_one_message() -> None:
    done = channel("laplace")
    assert done.returncode == 1
    assert "Known are global" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_domain_that_is_too_large_is_refused_at_once() -> None:
    done = subprocess.run(
        [OPBOOST, "channel", "global", "--upper", "1000000000"],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 1
    assert "1000000000 values, more than the 1024" in done.stderr
    assert "Traceback" not in done.stderr


def test_1024_values_take_seconds() -> None:
    done = subprocess.run(
        [OPBOOST, "channel", "global", "--epsilon", "0.1", "--upper", "1024", "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert len(json.loads(done.stdout)["loss"]) == 1023


def test_a_designed_channel_is_kept_in_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is what was printed; a second time it is not overwritten."""
    file = tmp_path / "near-and-far.json"
    asked = {"upper": 6, "most": 2.0, "prior": "1,2,3,3,2,1", "out": file, "as_json": True}
    command("designed", **asked)  # type: ignore[arg-type]
    found, kept = json.loads(capsys.readouterr().out), json.loads(file.read_text())
    assert kept["counts"] == found["counts"]
    assert found["declaration"]["table"] == file.name
    assert found["expected_cost"]["channel"] == pytest.approx(found["expected_cost"]["programme"])
    with pytest.raises(ConfigError, match="there already"):
        command("designed", **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"most": None}, "Give it with --most"),
        ({"most": -1.0}, "must be of 0.001 to 1000"),
        ({"epsilon": 0.0}, "must be of 0.001 to 1000"),
        ({"cost": "cubic"}, "Known are absolute, squared"),
        ({"prior": "1,x"}, "no list of numbers"),
        ({"prior": "1,2"}, "has 10 weights here"),
        ({"prior": ",".join(["nan"] * 10)}, "has 10 weights here"),
        ({"upper": 65}, "at most 64 values"),
        ({"prior": "1" + ",0" * 9}, "geometric mechanism at epsilon 0.222222"),
    ],
)
def test_what_cannot_be_designed_is_one_message(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        command("designed", **{"most": 2.0, **options})

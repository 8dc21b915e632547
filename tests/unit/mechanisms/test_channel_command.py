"""`opboost channel` prints the very table that is sampled."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

OPBOOST = Path(sys.executable).with_name("opboost")


def channel(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [OPBOOST, "channel", *arguments], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "name", ["global", "geometric", "adj", "local", "bucket", "grr", "piecewise"]
)
def test_every_mechanism_takes_every_parameter(name: str) -> None:
    options = {"lower": 1, "upper": 10, "epsilon": 1, "theta": 4, "alpha": 10, "buckets": 5}
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


def test_finding_11_a_domain_that_is_too_large_is_refused_at_once() -> None:
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


def test_finding_11_1024_values_take_seconds() -> None:
    done = subprocess.run(
        [OPBOOST, "channel", "global", "--epsilon", "0.1", "--upper", "1024", "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert len(json.loads(done.stdout)["loss"]) == 1023

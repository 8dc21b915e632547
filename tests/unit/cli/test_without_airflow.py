"""The library and its command line work where Airflow is not installed."""

import subprocess
import sys
from pathlib import Path

import pytest

#: Runs a command of `opboost` in an interpreter that has no Airflow.
RUN = """
import sys
for absent in ("airflow", "fastapi", "httpx"):
    sys.modules[absent] = None
from opboost_ops.cli import main
sys.argv[0] = "opboost"
main()
"""


def opboost(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", RUN, *arguments],
        cwd=folder, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


def test_its_version_is_said(tmp_path: Path) -> None:
    done = opboost(tmp_path, "--version")
    assert done.returncode == 0
    assert done.stdout.startswith("OpBoost Ops 0.")


@pytest.mark.slow
def test_a_federation_is_run(tmp_path: Path) -> None:
    done = opboost(tmp_path, "run", "--dataset", "credit", "--trees", "2", "--json")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", [["demo"], ["ui"]])
def test_what_needs_airflow_names_the_command_that_installs_it(
    tmp_path: Path, command: list[str]
) -> None:
    done = opboost(tmp_path, *command)
    assert done.returncode == 1
    assert "pip install 'opboost-ops[airflow]'" in done.stderr
    assert "Traceback" not in done.stderr

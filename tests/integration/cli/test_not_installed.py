"""The library and its command line where something is not installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from opboost_ops.extras.datasets import load
from opboost_ops.extras.datasets.workspace import write_workspace

#: Runs a command of `opboost` in an interpreter that has no Airflow.
RUN = """
import sys
for absent in ("airflow", "fastapi", "httpx"):
    sys.modules[absent] = None
from opboost_ops.cli import main
sys.argv[0] = "opboost"
main()
"""

#: What `import lightgbm` raises where the dynamic loader does not find the OpenMP runtime.
WITHOUT_OPENMP = """
raise OSError("libgomp.so.1: cannot open shared object file: No such file or directory")
"""


def opboost(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a command; what lies in the folder's ``path`` comes before installed packages."""
    path = os.pathsep.join([str(folder / "path"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", RUN, *arguments],
        cwd=folder, capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip


def test_its_version_is_said(tmp_path: Path) -> None:
    done = opboost(tmp_path, "--version")
    assert done.returncode == 0
    assert done.stdout.startswith("OpBoost Ops 0.")


def test_what_needs_airflow_names_the_command_that_installs_it(tmp_path: Path) -> None:
    done = opboost(tmp_path, "demo")
    assert done.returncode == 1
    assert "pip install 'opboost-ops[airflow]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_missing_openmp_runtime_is_named(tmp_path: Path) -> None:
    package = tmp_path / "path" / "lightgbm"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(WITHOUT_OPENMP)
    file = write_workspace(load("credit", rows=60), tmp_path / "credit")
    done = opboost(tmp_path, "run", str(file))
    assert done.returncode == 1
    assert "libgomp.so.1" in done.stderr
    assert "apt-get install libgomp1" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "credit").glob("**/manifest.json"))

"""A system library that is missing is named before a run begins, never by a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from opboost_ops.datasets import load
from opboost_ops.datasets.workspace import write_workspace

#: What `import lightgbm` raises where the dynamic loader does not find the OpenMP runtime.
WITHOUT_OPENMP = """
raise OSError("libgomp.so.1: cannot open shared object file: No such file or directory")
"""


def opboost(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    package = folder / "path" / "lightgbm"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text(WITHOUT_OPENMP)
    return subprocess.run(
        [sys.executable, "-c", "from opboost_ops.cli import main; main()", *arguments],
        cwd=folder, capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "PYTHONPATH": str(package.parent)},
    )  # fmt: skip


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_missing_openmp_runtime_is_named(tmp_path: Path, command: str) -> None:
    file = write_workspace(load("credit", rows=60), tmp_path / "credit")
    done = opboost(tmp_path, command, str(file))
    assert done.returncode == 1
    assert "libgomp.so.1" in done.stderr
    assert "apt-get install libgomp1" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "credit").glob("**/manifest.json"))

"""Threads of libraries sleep while they wait, unless somebody wants it otherwise."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from opboost_ops.pipeline.party.party_sites import party_environment

#: Of OpenMP, which boosters load, and of OpenBLAS, which NumPy loads: each reads its own then.
SETTINGS = ("OMP_WAIT_POLICY", "OPENBLAS_THREAD_TIMEOUT")

SAY = f"""
import sys, opboost_ops
print(*sorted({{'lightgbm', 'numpy'}} & sys.modules.keys()))
import os, opboost_ops.pipeline.runner.runner
print(*(os.environ[name] for name in {SETTINGS}), 'lightgbm' in sys.modules)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, ["PASSIVE", "4"]),
        ({"OMP_WAIT_POLICY": "ACTIVE", "OPENBLAS_THREAD_TIMEOUT": "26"}, ["ACTIVE", "26"]),
    ],
)
def test_it_is_said_before_a_library_is_loaded(given: dict[str, str], found: list[str]) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in SETTINGS} | given
    done = subprocess.run(
        [sys.executable, "-c", SAY], env=environment, check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == [*found, "False"]


def test_a_party_s_process_gets_the_settings_of_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site.yaml"
    site.write_text("version: 1\nparty: bank\nstore: x\n")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("OMP_PROC_BIND", "true")
    monkeypatch.setenv("SOMETHING_ELSE", "1")
    seen = party_environment("bank", {"bank": site})
    assert seen["OMP_NUM_THREADS"] == "3"
    assert seen["OMP_PROC_BIND"] == "true"
    assert "SOMETHING_ELSE" not in seen

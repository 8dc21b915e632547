"""`opboost airflow install` and `opboost airflow check`, in an Airflow home of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from opboost_ops.extras.datasets import load
from opboost_ops.extras.datasets.workspace import write_workspace
from tests.integration.cli.conftest import Opboost
from tests.integration.cli.conftest import opboost as opboost

CFG = """[core]
dags_folder = {home}/dags
[opboost]
site_bank =
metrics = on
[x]
password = s3cret"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("AIRFLOW__CORE__DAGS_FOLDER", raising=False)
    home = tmp_path / "airflow"
    home.mkdir()
    (home / "airflow.cfg").write_text(CFG.format(home=home))
    (home / "airflow.cfg").chmod(0o600)
    return home


def test_what_is_there_stays(home: Path, good_file: Path, opboost: Opboost) -> None:
    settings = home / "config" / "airflow_local_settings.py"
    settings.parent.mkdir()
    settings.write_text("def task_policy(task):\n    pass")
    done = opboost("airflow", "install", home, good_file, "--yes")
    assert "s3cret" not in done.output
    assert settings.read_text().startswith("def task_policy(task):\n    pass\n\nimport sys\n")
    compile(settings.read_text(), settings, "exec")
    text = (home / "airflow.cfg").read_text()
    assert text.startswith(CFG.format(home=home).partition("[opboost]")[0])
    assert text.endswith("metrics = on\n[x]\npassword = s3cret\n")
    assert f"site_bank = {good_file.parent / 'bank' / 'site.yaml'}\n" in text
    assert (home / "airflow.cfg").stat().st_mode & 0o777 == 0o600
    assert str(good_file) in (home / "dags" / "credit_scoring_federation.py").read_text()
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    assert "there already" in opboost("airflow", "install", home, good_file).output
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("other", ["dag", "site", "no home"])
def test_what_others_wrote_is_never_replaced(
    home: Path, good_file: Path, opboost: Opboost, other: str
) -> None:
    if other == "dag":
        (home / "dags").mkdir()
        (home / "dags" / "credit_scoring_federation.py").write_text("# another's\n")
    elif other == "site":
        (home / "airflow.cfg").write_text("[opboost]\nsite_bank = /another/site.yaml\n")
    else:
        (home / "airflow.cfg").unlink()
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    named = {"dag": "credit_scoring_federation.py", "site": "site_bank", "no home": "airflow.cfg"}
    assert named[other] in opboost("airflow", "install", home, good_file, "--yes").error
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before


def command(home: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AIRFLOW", "OPBOOST_", "_AIRFLOW"))
    }
    return subprocess.run(
        [sys.executable, *arguments], env={**environment, "AIRFLOW_HOME": str(home)},
        cwd=home, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


def check(home: Path) -> "subprocess.CompletedProcess[str]":
    done = command(home, "-c", "from opboost_ops.cli import main; main()", "airflow", "check")
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.mark.slow
def test_installed_it_is_green_and_what_is_missing_is_named(
    tmp_path: Path, opboost: Opboost
) -> None:
    home, file = tmp_path / "airflow", write_workspace(load("credit", rows=60), tmp_path / "credit")
    home.mkdir()
    assert command(home, "-m", "airflow", "db", "migrate").returncode == 0
    empty = check(home)
    assert empty.returncode == 1
    assert "No DAG file in" in empty.stdout
    assert "not preloaded" in empty.stdout

    opboost("airflow", "install", home, file, "--yes")
    green = check(home)
    assert green.returncode == 0, (green.stdout, green.stderr)
    assert "BLOCKS" not in green.stdout
    assert "preloads the libraries" in green.stdout
    assert "credit_scoring_train" in green.stdout
    assert "has not parsed credit_scoring_admin" in green.stdout
    assert "refresh_interval = 30" in green.stdout

    settings = home / "airflow.cfg"
    lines = settings.read_text().splitlines(keepends=True)
    settings.write_text("".join(line for line in lines if not line.startswith("site_bank")))
    (home / "config" / "airflow_local_settings.py").write_text("")
    lacking = check(home)
    assert lacking.returncode == 1
    assert "OPBOOST_SITE_BANK is not set" in lacking.stdout
    assert "not preloaded" in lacking.stdout

    file.write_text("version: 7\n")
    (home / "airflow.db").unlink()
    broken = check(home)
    assert broken.returncode == 1
    assert "is invalid" in broken.stdout
    assert "Run `airflow db migrate`" in broken.stdout

"""However the demo ends, nothing of it is left running."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from opboost_ops.cli.airflow import workspace
from opboost_ops.errors import ConfigError
from opboost_ops.orchestration.deployment.standalone import AirflowError, Standalone
from tests.processes import of_airflow
from tests.waiting import until

# Python's own handler, also where these tests run in a shell's background, which ignores it.
_RUN = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from opboost_ops.cli import main
main()
"""


def opboost(*words: str) -> "subprocess.Popen[str]":
    """A command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", _RUN, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )


@pytest.fixture
def demo(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    process = opboost("ui", "--work", str(tmp_path))
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if "Ctrl-C" in line:
            break
    assert any("http://127.0.0.1:" in line for line in lines)
    assert any(str(tmp_path / "airflow" / "passwords.json") in line for line in lines)
    assert len(of_airflow(tmp_path / "airflow")) >= 4
    yield process
    process.terminate()
    process.wait(timeout=30)


@pytest.mark.parametrize(
    ("number", "code"),
    [
        pytest.param(signal.SIGINT, 0, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.deployment),
    ],
)
def test_a_signal_ends_everything(
    demo: "subprocess.Popen[str]", tmp_path: Path, number: int, code: int
) -> None:
    demo.send_signal(number)
    assert demo.wait(timeout=30) == code
    assert of_airflow(tmp_path / "airflow") == {}


@pytest.mark.slow
def test_a_home_has_one_airflow_and_after_a_kill_the_next_start_says_how_to_end_it(
    demo: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    second = Standalone(tmp_path / "airflow", tmp_path, {})
    with pytest.raises(ConfigError, match="Another Airflow runs"), second:
        pass
    assert demo.poll() is None
    demo.kill()
    demo.wait()
    second = Standalone(tmp_path / "airflow", tmp_path, {})
    with pytest.raises(ConfigError, match="Another Airflow runs") as caught, second:
        pass
    command = str(caught.value).split("`")[1]
    subprocess.run(command, shell=True, check=False, executable="/bin/bash")
    until(lambda: not of_airflow(tmp_path / "airflow"), "the end of all processes", 30)


@pytest.mark.slow
def test_a_failing_demo_prints_the_failing_tasks_error(tmp_path: Path) -> None:
    file = workspace("credit", tmp_path)
    table = file.parent / "bank" / "tables" / "train.parquet"
    pl.read_parquet(table).drop("income").write_parquet(table)
    demo = opboost("demo", "--work", str(tmp_path))
    _, told = demo.communicate()
    assert demo.returncode == 1
    assert "bank_release.check_table" in told
    assert "errors/reason.txt" in told and "income" not in told
    (reason,) = (file.parent / "bank" / "home").rglob("errors/reason.txt")
    assert "income" in reason.read_text()
    assert "Traceback" not in told
    assert of_airflow(tmp_path / "airflow") == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("CORE__EXECUTOR", "NoSuchExecutor", r"scheduler ended with 1:(?s:.*)NoSuchExecutor"),
        ("DATABASE__SQL_ALCHEMY_CONN", "sqlite:////nowhere/airflow.db", r"unable to open"),
    ],
)
def test_a_component_that_ends_says_why(
    tmp_path: Path, variable: str, value: str, told: str
) -> None:
    airflow = Standalone(
        tmp_path, tmp_path / "none", {}, environment={f"AIRFLOW__{variable}": value}
    )
    with pytest.raises(AirflowError, match=told), airflow:
        airflow.client()
    assert of_airflow(tmp_path) == {}


@pytest.mark.slow
def test_the_demo_trains_scores_and_reports(tmp_path: Path) -> None:
    demo = opboost("demo", "--work", str(tmp_path))
    shown, told = demo.communicate()
    assert demo.returncode == 0, told
    assert "The other parties' columns help: auc" in shown
    scores = next((tmp_path / "credit/credit/scores/credit_scoring").glob("*/*.parquet"))
    rows = pl.read_parquet(scores).height
    assert f"{rows:,} new rows were scored" in shown
    assert scores.name in shown
    assert of_airflow(tmp_path / "airflow") == {}

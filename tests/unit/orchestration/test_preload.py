"""What is imported before tasks are forked is there to be imported, and is asked for."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from opboost_ops.orchestration.deployment import installation, preload
from opboost_ops.pipeline.runner import fork_server

IMAGE = Path(__file__).parents[3] / "docker" / "image" / "settings" / "airflow_local_settings.py"


@pytest.mark.parametrize(
    "name", [*fork_server.OURS, *fork_server.THEIRS, *preload.OURS, *preload.AIRFLOWS]
)
def test_each_module_is_there(name: str) -> None:
    """One that another release has elsewhere is passed over in silence, so it is looked at here."""
    assert find_spec(name)


def test_no_thread_is_started() -> None:
    """It would not survive a fork, and the judgement that is made once would start one."""
    code = (
        "import threading; from opboost_ops.pipeline.runner import fork_server; "
        "fork_server.preload(); print(threading.active_count())"
    )
    assert subprocess.check_output([sys.executable, "-c", code]).split()[-1] == b"1"


@pytest.mark.parametrize(
    ("settings", "forking", "other"),
    [
        (installation.LOCAL_SETTINGS, ["airflow", "scheduler"], ["airflow", "dag-processor"]),
        (IMAGE.read_text(), ["airflow", "celery", "worker"], ["airflow", "celery", "stop"]),
    ],
)
def test_only_who_forks_tasks_preloads(
    settings: str, forking: list[str], other: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(preload, "preload", lambda: calls.append(sys.argv[1]))
    for argv in (forking, other):
        monkeypatch.setattr(sys, "argv", argv)
        exec(settings, {})
    assert calls == [forking[1]]

"""Airflow's components, forked from one process that has imported Airflow once.

``python -m opboost_ops.orchestration.deployment.components FD COMMANDS`` migrates the database and
starts the components, whose names and words of ``airflow`` commands are given as JSON, each in a
process session of its own; the sessions are written to the descriptor as `kill` takes them. It
ends as soon as one of them does, and prints the name of that and its exit status.

Airflow takes seconds to import, and forks its own tasks and parses from what has imported it.
Nothing that does not survive a fork is made before: connections of the migration are closed, and
threads are started by the components.
"""

import atexit
import gc
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module, reload
from pathlib import Path

#: The log of what comes before the components.
MIGRATION = "db-migrate"

#: What API servers import when they make their routes; another release may have other names.
_ROUTES = (
    "airflow.api_fastapi.execution_api.routes",
    "airflow.api_fastapi.core_api.routes.public",
    "airflow.api_fastapi.core_api.routes.ui",
)


def log_of(home: Path, name: str) -> Path:
    """The file with a component's output.

    Args:
        home: The AIRFLOW_HOME.
        name: The component's.
    """
    return home / "output" / f"{name}.log"


def _main(sessions: int, commands: Mapping[str, Sequence[str]]) -> None:
    gc.disable()
    home, report = Path(os.environ["AIRFLOW_HOME"]), os.dup(1)
    # Where its errors go already.
    os.dup2(2, 1)
    _airflow("db", "migrate")
    import_module("airflow.settings").dispose_orm()
    running: dict[int, str] = {}
    for name, words in commands.items():
        if words[0] == "api-server":
            for module in _ROUTES:
                with suppress(ImportError):
                    import_module(module)
        # What is there already is not looked through by the collections of each component.
        gc.freeze()
        pid = _start_component(sessions, log_of(home, name), words)
        if pid == 0:
            os.close(report)
            gc.enable()
            _component(words)
            return
        running[pid] = name
    while (ended := os.wait())[0] not in running:
        pass
    status = os.waitstatus_to_exitcode(ended[1])
    os.write(report, f"{running[ended[0]]} {status}".encode())


def _start_component(sessions: int, log: Path, words: Sequence[str]) -> int:
    """The process of a component; 0 within it."""
    if sys.platform == "darwin":
        # Libraries of macOS do not survive a fork without an exec.
        with log.open("wb") as output:
            pid = subprocess.Popen(
                [sys.executable, "-m", "airflow", *words],
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(sessions,),
            ).pid
        os.write(sessions, f"-{pid} ".encode())
        return pid
    if pid := os.fork():
        return pid
    # In this order it is found at each moment, also if the one that forked it has just ended.
    os.write(sessions, f"-{os.getpid()} ".encode())
    os.setsid()
    _write_to(log)
    return 0


def _component(words: Sequence[str]) -> None:
    from setproctitle import setproctitle

    setproctitle(f"airflow {words[0]}")
    import_module("airflow.settings").configure_orm()
    # The local settings preload depending on the command.
    sys.argv = ["airflow", *words]
    reload(import_module("airflow_local_settings"))
    _airflow(*words)


def _airflow(*words: str) -> None:
    sys.argv = ["airflow", *words]
    import_module("airflow.__main__").main()


def _write_to(log: Path) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for standard in (1, 2):
        os.dup2(descriptor, standard)
    os.close(descriptor)


if __name__ == "__main__":
    code: object = 1
    # After all other handlers. To free all that was imported would take each of them seconds.
    atexit.register(lambda: os._exit(code if isinstance(code, int) else 1))
    try:
        _main(int(sys.argv[1]), json.loads(sys.argv[2]))
        code = 0
    except SystemExit as end:
        code = end.code or 0
        raise

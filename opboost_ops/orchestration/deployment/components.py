"""Airflow's components, forked from one process that has imported Airflow once.

``python -m opboost_ops.orchestration.deployment.components FD COMMANDS`` migrates the database and
starts each component in its own process session. COMMANDS is JSON: the arguments of ``airflow`` by
component. The session ids are written to the file descriptor FD, in the form that `kill` takes. The
process exits as soon as one component does, and prints that component's name and exit status.

Importing Airflow takes seconds, and Airflow forks its tasks and parsers from processes that have
imported it. Nothing that does not survive a fork is created before forking: the migration's
connections are closed, and only the components start threads.
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

#: Name of the log of the database migration, which precedes the components.
MIGRATION = "db-migrate"

#: Modules that API servers import when they create their routes; names may change with Airflow.
_ROUTES = (
    "airflow.api_fastapi.execution_api.routes",
    "airflow.api_fastapi.core_api.routes.public",
    "airflow.api_fastapi.core_api.routes.ui",
)


def log_of(home: Path, name: str) -> Path:
    """Return the file with a component's output.

    Args:
        home: The AIRFLOW_HOME.
        name: Name of the component.
    """
    return home / "output" / f"{name}.log"


def _main(sessions: int, commands: Mapping[str, Sequence[str]]) -> None:
    gc.disable()
    home, report = Path(os.environ["AIRFLOW_HOME"]), os.dup(1)
    # Standard error is a log already; standard output joins it.
    os.dup2(2, 1)
    _airflow("db", "migrate")
    import_module("airflow.settings").dispose_orm()
    running: dict[int, str] = {}
    for name, words in commands.items():
        if words[0] == "api-server":
            for module in _ROUTES:
                with suppress(ImportError):
                    import_module(module)
        # Excludes existing objects from the garbage collections of each component.
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
    """Fork a component; return its process id, or 0 in the component itself."""
    if sys.platform == "darwin":
        # macOS libraries do not survive a fork without an exec.
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
    # Recorded before setsid, so that the process can always be found, even if its parent exits now.
    os.write(sessions, f"-{os.getpid()} ".encode())
    os.setsid()
    _write_to(log)
    return 0


def _component(words: Sequence[str]) -> None:
    from setproctitle import setproctitle

    setproctitle(f"airflow {words[0]}")
    import_module("airflow.settings").configure_orm()
    # airflow_local_settings preloads depending on the command line.
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
    # Runs after all other handlers. Freeing all imported modules would take each process seconds.
    atexit.register(lambda: os._exit(code if isinstance(code, int) else 1))
    try:
        _main(int(sys.argv[1]), json.loads(sys.argv[2]))
        code = 0
    except SystemExit as end:
        code = end.code or 0
        raise

"""Processes of a test, each in a session of its own; none is left in the end."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path


class Processes:
    """Started and ended by name.

    Args:
        logs: Folder of what they print.
    """

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(
        self, name: str, command: Sequence[str | Path], env: Mapping[str, str], cwd: Path
    ) -> None:
        with (self.logs / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                command, env=env, cwd=cwd, stdout=log, stderr=log, start_new_session=True
            )

    def output(self, name: str) -> str:
        return (self.logs / f"{name}.log").read_text(errors="replace")

    @contextlib.contextmanager
    def asleep(self, *names: str) -> Iterator[None]:
        """Stop processes and what they started for a while."""
        pids = self.members(*names)
        try:
            _send(pids, signal.SIGSTOP)
            yield
        finally:
            _send(pids, signal.SIGCONT)

    def stop(self, *names: str) -> None:
        """End these, or all."""
        names = names or tuple(self.running)
        for number in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + 5
            while (left := self.members(*names)) and time.monotonic() < deadline:
                _send(left, number)
                for name in names:
                    self.running[name].poll()
                time.sleep(0.1)
        for name in names:
            self.running.pop(name).wait()

    def kill(self, name: str) -> None:
        """End a process and all that it has started at once, as a crash does."""
        while left := self.members(name):
            _send(left, signal.SIGKILL)
            self.running[name].poll()

    def members(self, *names: str) -> set[int]:
        """The living processes of sessions, and what they have started in other ones."""
        return family({self.running[name].pid for name in names})


def family(leaders: set[int]) -> set[int]:
    """The living processes of sessions, and what they have started in other ones."""
    parents, found = {}, set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent, _, session = stat.read_text().rpartition(")")[2].split()[:4]
            if state != "Z":
                parents[int(stat.parent.name)] = int(parent)
                found |= {int(stat.parent.name)} if int(session) in leaders else set()
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def of_airflow(home: Path, word: str = "") -> dict[int, list[str]]:
    """Command lines of the processes whose AIRFLOW_HOME it is; of those alone that have a word."""
    mark, found = f"AIRFLOW_HOME={home.resolve()}", {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line, variables = (
                (process / name).read_text(errors="replace").split("\0")
                for name in ("cmdline", "environ")
            )
            if mark in variables and (not word or word in line):
                found[int(process.name)] = line
    return found


def _send(pids: set[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

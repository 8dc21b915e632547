"""What every Airflow of one's own needs: free ports, settings, and an end of all processes."""

import os
import signal
import socket
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

#: Seconds between being asked to end, and being ended.
GRACE = 4.0


def settings(values: Mapping[str, object]) -> dict[str, str]:
    """Environment variables of Airflow's settings.

    Args:
        values: By ``section.option``.
    """
    return {
        f"AIRFLOW__{name.replace('.', '__').upper()}": str(value) for name, value in values.items()
    }


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def members(sessions: Sequence[int]) -> list[int]:
    """Living processes of the sessions, from /proc, or the sessions' leaders where it is absent.

    Args:
        sessions: Process ids of the sessions' leaders, living or not.
    """
    processes = Path("/proc")
    if not (processes / "self" / "stat").exists():
        return [pid for pid in sessions if send(pid, 0)]
    found = []
    for stat in processes.glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) in sessions and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def end(remaining: Callable[[], Collection[int]], grace: float = GRACE) -> None:
    """End processes: all are asked, and those that stay are ended.

    Args:
        remaining: Those that are still there, and with them what they have started.
        grace: Seconds until the second.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + grace
        for pid in remaining():
            send(pid, number)
        while remaining() and time.monotonic() < deadline:
            time.sleep(0.05)


def send(pid: int, number: int) -> bool:
    """Send a signal; False if there is no such process."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True

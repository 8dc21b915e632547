"""Whether the component that this container runs is well; its name is that of the command.

A file a command, because some engines split one with blanks. Nothing but the standard library, and
no Airflow: it runs every few seconds.
"""

import json
import sys
import urllib.request
from pathlib import Path

#: Of Airflow's own health pages, those of the API server and that of the scheduler. The first call
#: of the Execution API takes it long, and everybody waits: let it not be a task's.
_API = "http://127.0.0.1:8080/execution/health"
_DATABASE = "http://127.0.0.1:8080/api/v2/monitor/health"
_SCHEDULER = "http://127.0.0.1:8974/health"

#: State of a TCP connection that stands, in /proc/net/tcp.
_ESTABLISHED = "01"


def main() -> int:
    """Look at the component that the command names.

    Returns:
        0 if it is well.
    """
    look = {
        "api-server": lambda: _answer(_API) is not None and _is_healthy(_DATABASE, "metadatabase"),
        "scheduler": lambda: _answer(_SCHEDULER) is not None,
        "dag-processor": lambda: _runs("dag-processor"),
        "worker": lambda: _runs("celery") and _is_connected(6379),
    }[Path(sys.argv[0]).name.removeprefix("healthy-")]
    return 0 if look() else 1


def _answer(url: str) -> bytes | None:
    """What a page says; nothing if it cannot be had, or tells of a fault."""
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:  # noqa: S310
            return bytes(answer.read())
    except OSError:
        return None


def _is_healthy(url: str, name: str) -> bool:
    try:
        told = json.loads(_answer(url) or b"{}")
        return bool(told[name]["status"] == "healthy")
    except (ValueError, KeyError, TypeError):
        return False


def _runs(word: str) -> bool:
    """Whether a process has the word in its command line."""
    own = Path("/proc/self").resolve().name
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if line.parent.name != own and word.encode() in line.read_bytes():
                return True
        except OSError:
            continue
    return False


def _is_connected(port: int) -> bool:
    """Whether a connection to a port of another machine stands: a worker's to its broker."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            _, _, remote, state, *_ = line.split()
            if state == _ESTABLISHED and int(remote.rpartition(":")[2], 16) == port:
                return True
    return False


if __name__ == "__main__":
    sys.exit(main())

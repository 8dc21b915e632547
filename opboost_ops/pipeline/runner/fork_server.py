"""The fork server of a run without Airflow: it imports everything once, then forks processes.

``python -m opboost_ops.pipeline.runner.fork_server FD`` forks a process for each pair of
descriptors that it receives over a socket. The server receives nothing else: a party's variables
and site are sent only to that party's process, over its own input.
"""

import gc
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from select import select
from threading import RLock

#: Our modules. The runner is first: it sets how OpenMP threads wait, which is read at import.
OURS = (
    "opboost_ops.pipeline.runner.runner",
    "opboost_ops.quality.checks",
    "opboost_ops.pipeline.runner.readiness",
)

#: Libraries that these modules import lazily.
THEIRS = (
    "lightgbm",
    "pandas",
    "polars",
    "cryptography.hazmat.backends.openssl.backend",
    "pyarrow.vendored.version",
)

#: Variables that programs need, and prefixes of variables that set the threads of libraries.
PROGRAMS = (
    "PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV"
)  # fmt: skip
THREADS = ("OMP_", "GOMP_", "KMP_", "OPENBLAS_", "POLARS_")


def early_environment() -> dict[str, str]:
    """Return the environment of a server that starts before the parties are known."""
    return {n: v for n, v in os.environ.items() if n in PROGRAMS or n.startswith(THREADS)}


def preload() -> None:
    """Import everything that stages need."""
    _preload_ours()
    _preload_theirs()


def _preload_ours() -> None:
    for name in OURS:
        import_module(name)


def _preload_theirs() -> None:
    for name in THEIRS:
        # If a system library is missing, the stages that need it report it; others work.
        with suppress(OSError):
            import_module(name)
    from opboost_ops.exchange.signing import new_signing_key, signed_by
    from opboost_ops.mechanisms.noise import checkpoint_key
    from opboost_ops.quality.profile import COLUMNS
    from opboost_ops.quality.suites import expectations
    from opboost_ops.quality.validation import validate
    from opboost_ops.reports.display.html import compile_documents

    compile_documents()
    # OpenSSL loads each algorithm at its first use; this key belongs to nobody.
    signed_by(new_signing_key(bytes(32))[1], b"", bytes(64))
    checkpoint_key(bytes(32), "", "")
    with suppress(ImportError):
        # LightGBM calls it for each matrix, and its first call scans all packages for plugins.
        from narwhals.dependencies import is_into_dataframe

        is_into_dataframe(None)
    from tqdm import tqdm

    # Progress bars are not shown; avoid their monitor thread, and their lock across processes.
    tqdm.monitor_interval = 0
    tqdm.set_lock(RLock())
    # The first validation is the slowest; run it here on an empty table.
    validate(expectations("preprocessed_table"), [dict.fromkeys(COLUMNS)], {"rows": 0})


_PID = struct.Struct("=i")


class ForkServer:
    """Client of the fork server; a context manager that stops the server at exit.

    Args:
        environment: Environment of the server, and so the one that the kernel shows for each fork.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = dict(environment)
        self._socket, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-X", "faulthandler", "-m", __name__, str(theirs.fileno())]
            self._process = subprocess.Popen(
                command,
                env=self.environment,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )

    def __enter__(self) -> "ForkServer":
        return self

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        self._socket.close()
        if error is not None:
            # It may still be importing.
            self._process.kill()
        self._process.wait()

    def fork(self, read: int, write: int) -> int:
        """Fork a process that executes stages, see `worker.serve`.

        Args:
            read: Descriptor of its input.
            write: Descriptor of its output.

        Returns:
            Its PID, which stays reserved until the server ends.

        Raises:
            ChildProcessError: The server has ended.
        """
        try:
            socket.send_fds(self._socket, [b"f"], [read, write])
            answer = self._socket.recv(_PID.size, socket.MSG_WAITALL)
        except (BrokenPipeError, ConnectionResetError):
            answer = b""
        if len(answer) < _PID.size:
            raise ChildProcessError(f"it ended with {self._process.wait()}")
        return int(_PID.unpack(answer)[0])


def _main(number: int) -> int:
    # Ctrl-C is sent to all processes of a terminal. The server must survive it, so that no PID is
    # reused while the driver ends the parties' processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=number) as mine:
        if _until_forked(mine):
            from opboost_ops.pipeline.runner.worker import serve

            return serve()
    # Wait for all children, so that their CPU time counts as this process's.
    with suppress(ChildProcessError):
        while True:
            os.wait()
    return 0


def _until_forked(mine: socket.socket) -> bool:
    """Import everything, and fork a process per request until the client closes the socket.

    Returns:
        True in a forked process, False in the server at the end.
    """
    # Imports create no garbage; collections would take a fifth of the time.
    gc.disable()
    # LightGBM would import scikit-learn for its estimators, which no stage uses: 1 s and 40 MiB.
    sys.modules["sklearn"] = None  # type: ignore[assignment]
    _preload_ours()
    # The first request checks whether the run can begin, and needs no other imports.
    if select([mine], [], [], 0)[0] and (forked := _fork(mine)) is not None:
        return forked
    _preload_theirs()
    # Otherwise a collection in a child would visit, and so copy, all of this memory.
    gc.freeze()
    gc.enable()
    while (forked := _fork(mine)) is None:
        pass
    return forked


def _fork(mine: socket.socket) -> bool | None:
    """Serve one request: True in the forked process, False at the end of requests, else None."""
    request, descriptors, _, _ = socket.recv_fds(mine, 1, 2)
    if not request:
        return False
    # The child is reaped only at the end, so that its PID is not reused.
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        mine.close()
        for standard, descriptor in enumerate(descriptors):
            os.dup2(descriptor, standard)
            os.close(descriptor)
        return True
    for descriptor in descriptors:
        os.close(descriptor)
    mine.sendall(_PID.pack(pid))
    return None


if __name__ == "__main__":
    code = 1
    try:
        code = _main(int(sys.argv[1]))
        sys.stdout.flush()
    except Exception as error:
        # Only the type: a traceback may show cells.
        sys.stderr.write(f"opboost: a process ended by {type(error).__name__}.\n")
        sys.stderr.flush()
    finally:
        # Thread pools of libraries may abort during interpreter shutdown; all work is on disk by
        # now.
        os._exit(code)

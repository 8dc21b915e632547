"""The processes of the parties in a run without Airflow: forks of one that has imported everything.

``python -m opboost_ops.pipeline.runner.fork_server FD`` forks a process for each pair of
descriptors that it receives over a socket. It learns nothing else: a party's variables and site
reach that party's process alone, over its own input.
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

#: Ours. The runner is first: it says how OpenMP's threads wait, which is read when that is loaded.
OURS = (
    "opboost_ops.pipeline.runner.runner",
    "opboost_ops.quality.checks",
    "opboost_ops.pipeline.runner.readiness",
)

#: What these import when it is first needed.
THEIRS = (
    "lightgbm",
    "pandas",
    "polars",
    "cryptography.hazmat.backends.openssl.backend",
    "pyarrow.vendored.version",
)

#: Variables that programs need, and how those of libraries begin that set threads.
PROGRAMS = (
    "PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV"
)  # fmt: skip
THREADS = ("OMP_", "GOMP_", "KMP_", "OPENBLAS_", "POLARS_")


def early_environment() -> dict[str, str]:
    """Variables for a server that starts before a party's own ones are known."""
    return {n: v for n, v in os.environ.items() if n in PROGRAMS or n.startswith(THREADS)}


def preload() -> None:
    """Import all of it."""
    _preload_ours()
    _preload_theirs()


def _preload_ours() -> None:
    for name in OURS:
        import_module(name)


def _preload_theirs() -> None:
    for name in THEIRS:
        # A system library may be missing: the stages that need it say so, others go on.
        with suppress(OSError):
            import_module(name)
    from opboost_ops.exchange.signing import new_signing_key, signed_by
    from opboost_ops.mechanisms.noise import checkpoint_key
    from opboost_ops.quality.profile import COLUMNS
    from opboost_ops.quality.suites import expectations
    from opboost_ops.quality.validation import validate
    from opboost_ops.reports.display.html import compile_documents

    compile_documents()
    # OpenSSL looks for each algorithm when it is first used; this key is nobody's.
    signed_by(new_signing_key(bytes(32))[1], b"", bytes(64))
    checkpoint_key(bytes(32), "", "")
    with suppress(ImportError):
        # LightGBM asks it what a matrix is, and it looks for plugins in all packages at first.
        from narwhals.dependencies import is_into_dataframe

        is_into_dataframe(None)
    from tqdm import tqdm

    # Of a progress bar that is not shown: a thread, and a lock that all processes would share.
    tqdm.monitor_interval = 0
    tqdm.set_lock(RLock())
    # A first judgement takes half as long again; this one is of nothing.
    validate(expectations("preprocessed_table"), [dict.fromkeys(COLUMNS)], {"rows": 0})


_PID = struct.Struct("=i")


class ForkServer:
    """Its side of the one who wants processes; up inside, as a context manager.

    Args:
        environment: Of the server, and so of each process as the kernel shows it.
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
            # It may be importing still.
            self._process.kill()
        self._process.wait()

    def fork(self, read: int, write: int) -> int:
        """Start a process that executes stages, see `worker.serve`.

        Args:
            read: Descriptor of its input.
            write: Descriptor of its output.

        Returns:
            Its PID, which no other process gets before the server has ended.

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
    # Ctrl-C reaches all processes of a terminal. This one stays, so that no PID is another's while
    # the driver ends the parties' processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=number) as mine:
        if _until_forked(mine):
            from opboost_ops.pipeline.runner.worker import serve

            return serve()
    # So that what they took counts as what this process took.
    with suppress(ChildProcessError):
        while True:
            os.wait()
    return 0


def _until_forked(mine: socket.socket) -> bool:
    """Import, and fork a process for each request, until the other side closes the socket.

    Returns:
        True in a process that was forked, False in this one at the end.
    """
    # Nothing that is imported is garbage; collections would take a fifth of the time.
    gc.disable()
    # LightGBM would import it for its estimators, which no stage uses: a second, and 40 MiB.
    sys.modules["sklearn"] = None  # type: ignore[assignment]
    _preload_ours()
    # Whether a run can begin is asked first, and needs nothing else.
    if select([mine], [], [], 0)[0] and (forked := _fork(mine)) is not None:
        return forked
    _preload_theirs()
    # A collection in a process would look through all of it, and copy the memory it is in.
    gc.freeze()
    gc.enable()
    while (forked := _fork(mine)) is None:
        pass
    return forked


def _fork(mine: socket.socket) -> bool | None:
    """Answer a request: True in the process that was forked, False where there is none any more."""
    request, descriptors, _, _ = socket.recv_fds(mine, 1, 2)
    if not request:
        return False
    # Nobody waits for it before the end: until then its PID stays its own.
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
        # By its kind alone: a traceback may show cells.
        sys.stderr.write(f"opboost: a process ended by {type(error).__name__}.\n")
        sys.stderr.flush()
    finally:
        # Thread pools of the libraries may abort an interpreter that tears itself down; all work is
        # on disk by now.
        os._exit(code)

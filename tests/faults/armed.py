"""What a drill puts into the workers: at an ordered stage the process is killed, or the worker.

Nothing here acts unless a drill's folder is named in the environment, as only a drill does.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any

from opboost_ops.pipeline.party.inbox import Run
from opboost_ops.pipeline.runner import opening, runner
from tests.processes import family

#: Names the folder of the orders.
FOLDER = "OPBOOST_DRILL"

#: What Python runs in every process of a worker, if it lies on its path.
SITECUSTOMIZE = f"""import os, sys

if "{FOLDER}" in os.environ and "celery" in sys.orig_argv:
    from tests.faults.armed import arm

    arm()
"""


def arm() -> None:
    """Look for an order whenever a stage begins in this process."""
    folder = Path(os.environ[FOLDER])
    run_stage: Callable[..., Any] = runner.run_stage
    open_run: Callable[..., Any] = opening.open_run

    def armed_stage(party: str, stage: str, run: Run, *more: Any) -> Any:
        place = (folder / f"{run.federation}.json", stage, party)
        return _under_order(*place, lambda: run_stage(party, stage, run, *more))

    def armed_open(file: Path, *more: Any) -> Any:
        place = (folder / f"{file.stem}.json", "open_run", "")
        return _under_order(*place, lambda: open_run(file, *more))

    vars(runner)["run_stage"] = wraps(run_stage)(armed_stage)
    vars(opening)["open_run"] = wraps(open_run)(armed_open)


def _under_order(file: Path, stage: str, party: str, work: Callable[[], Any]) -> Any:
    order = _order(file, stage, party)
    if order is None:
        return work()
    blow = threading.Timer(order["delay"], _strike, [order["whom"]])
    blow.daemon = True
    blow.start()
    try:
        return work()
    finally:
        # What was faster than its order is killed before it can say that it is done.
        blow.join()


def _order(file: Path, stage: str, party: str) -> dict[str, Any] | None:
    if not file.is_file():
        return None
    order: dict[str, Any] = json.loads(file.read_text())
    if order["stage"] != stage or (party and order["party"] != party):
        return None
    try:
        # In the party's own folder: it can write nowhere else. An order is carried out once.
        (Path(os.environ["TMPDIR"]) / f"struck-{order['id']}").touch(exist_ok=False)
    except FileExistsError:
        return None
    return order


def _strike(whom: str) -> None:
    me = os.getpid()
    if whom == "supervisor":
        os.kill(os.getppid(), signal.SIGKILL)
        # Alone from here on, it goes on until it wants something of its supervisor.
        time.sleep(1)
    elif whom == "worker":
        # All that the rig has started for this party, and not the rig.
        leader = me
        while "pytest" not in Path(f"/proc/{_parent(leader)}/cmdline").read_text():
            leader = _parent(leader)
        for pid in family({leader}) - {me}:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    os.kill(me, signal.SIGKILL)


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

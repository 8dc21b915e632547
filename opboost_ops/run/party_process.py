"""One party's whole part of a run, in a process of its own, over the store alone."""

import gc
import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

from opboost_ops.boosting.rounds import LOGGER
from opboost_ops.config.loading import site_file, site_of
from opboost_ops.errors import ApprovalError, ConfigError, OpBoostError
from opboost_ops.quality.tightening import TIGHTENING
from opboost_ops.run.inbox import Run, home_of
from opboost_ops.run.opening import open_run
from opboost_ops.run.phases import ROUNDS
from opboost_ops.run.runner import run_stage
from opboost_ops.run.timings import spent_by
from opboost_ops.stages.stage import SKIP
from opboost_ops.stages.untold import whole

#: Seconds between two looks for a person's answer.
_AGAIN = 2.0


def main() -> int:
    """Run the party that the one JSON argument names; events go to stdout, a line each.

    Returns:
        0 when all its stages ended well, 1 when one failed.
    """
    order = json.loads(sys.argv[1])
    run, party = Run(**order["run"]), order["party"]
    if order["preload"]:
        import lightgbm  # noqa: F401

        if (site_file(party).parent / TIGHTENING).is_file():
            import great_expectations  # noqa: F401
    # A full collection looks through all that the libraries have made, which is 0.4 s.
    gc.freeze()
    logger = logging.getLogger(LOGGER)
    logger.setLevel(logging.INFO)
    logger.addHandler(_Told())
    _tell(event="ready")
    sys.stdin.readline()
    stage = "open_run"
    try:
        if party == run.label_holder:
            _tell(event="started", stage=stage, of=1 + len(order["stages"]))
            file = Path(order["federation_file"])
            summary = open_run(file, run.run, order["form"], order["purpose"])
            if SKIP in summary:
                raise ConfigError(f"Nothing was done: {summary[SKIP]}.")
            _tell(event="finished", stage=stage, summary=summary, spent=_spent(party, run, stage))
        for stage in order["stages"]:
            _tell(event="started", stage=stage, of=len(order["stages"]))
            summary = _patiently(party, stage, run)
            _tell(event="finished", stage=stage, summary=summary, spent=_spent(party, run, stage))
    except OpBoostError as error:
        _tell(event="failed", stage=stage, kind=type(error).__name__, error=str(error))
        return 1
    except ConnectionError as error:
        _tell(event="failed", stage=stage, kind="ConnectionError", error=str(error))
        return 1
    return 0


def _patiently(party: str, stage: str, run: Run) -> dict[str, Any]:
    """Run a stage, which may wait for a person."""
    while True:
        try:
            summary = run_stage(party, stage, run)
            # Whoever started this process is the party's own.
            return whole(home_of(site_of(party)[0], run.federation, run.run), stage, summary)
        except ApprovalError as waits:
            if waits.new:
                _tell(event="progress", stage=stage, text=str(waits))
        time.sleep(_AGAIN)


def _spent(party: str, run: Run, stage: str) -> dict[str, float]:
    """What a stage took: for whoever started this process, who is the party's own."""
    return spent_by(site_file(party), run.federation, run.run).get(stage, {})


class _Told(logging.Handler):
    """Says how far the rounds are, or the trials of tuning, which are long stages."""

    def emit(self, record: logging.LogRecord) -> None:
        stage = getattr(record, "stage", ROUNDS)
        _tell(event="progress", stage=stage, text=record.getMessage())


def _tell(**event: Any) -> None:
    print(json.dumps(event), flush=True)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # Thread pools of the libraries may abort an interpreter that tears itself down; all work is
    # on disk by now.
    os._exit(code)

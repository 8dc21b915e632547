"""One party's whole part of a run, in a process of its own, over the store alone."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from opboost_ops.errors import OpBoostError
from opboost_ops.runner import STAGES, Run, open_run, run_stage


def main() -> int:
    """Run the party that the one JSON argument names; events go to stdout, a line each.

    Returns:
        0 when all its stages ended well, 1 when one failed.
    """
    order = json.loads(sys.argv[1])
    run, party = Run(**order["run"]), order["party"]
    if order["preload"]:
        import great_expectations  # noqa: F401
        import lightgbm  # noqa: F401
        import pandas  # noqa: F401
    _tell(event="ready")
    sys.stdin.readline()
    stage = "open_run"
    try:
        if order["role"] == "label_holder":
            _tell(event="started", stage=stage)
            summary = open_run(Path(order["federation_file"]), run.run, order["form"])
            _tell(event="finished", stage=stage, summary=summary)
        for stage, known in STAGES.items():
            if order["role"] in known.groups:
                _tell(event="started", stage=stage)
                _tell(event="finished", stage=stage, summary=run_stage(party, stage, run))
    except OpBoostError as error:
        _tell(event="failed", stage=stage, kind=type(error).__name__, error=str(error))
        return 1
    except ConnectionError as error:
        _tell(event="failed", stage=stage, kind="ConnectionError", error=str(error))
        return 1
    return 0


def _tell(**event: Any) -> None:
    print(json.dumps(event), flush=True)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # Thread pools of the libraries may abort an interpreter that tears itself down; all work is
    # on disk by now.
    os._exit(code)

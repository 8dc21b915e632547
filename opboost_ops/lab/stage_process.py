"""One stage of one party in a process of its own: what it cost, in a line of JSON."""

import json
import os
import resource
import sys
import time
from pathlib import Path

from opboost_ops.run.inbox import Run
from opboost_ops.run.opening import open_run
from opboost_ops.run.runner import run_stage


def main() -> None:
    """Run what the arguments name: federation, run, label holder, party, stage."""
    federation, run, owner, party, what = sys.argv[1:]
    stage, _, argument = what.partition(" ")
    begin = time.perf_counter(), spent()
    if stage == "open_run":
        open_run(Path(argument), run, {}, "train")
    else:
        run_stage(party, stage, Run(federation, run, owner))
    end = time.perf_counter(), spent()
    told = {
        "seconds": round(end[0] - begin[0], 3),
        "processor": round(end[1] - begin[1], 3),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    print(json.dumps(told), flush=True)  # noqa: T201
    os._exit(0)


def spent() -> float:
    """Processor seconds of this process, and of those of its own that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


if __name__ == "__main__":
    main()

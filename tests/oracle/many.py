"""Many histories in several processes, with progress: `python -m tests.oracle`."""

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.oracle import judge, whole_runs

_Kind = Callable[[Path, range], float]
_Work = tuple[str, range]


def _door(folder: Path, seeds: range) -> float:
    return judge.worst_of(folder, seeds, neighbours=4)


_KINDS: dict[str, tuple[_Kind, int]] = {"door": (_door, 50), "whole": (whole_runs.worst_of, 2)}


def _played(work: _Work) -> tuple[str, int, float, str]:
    name, seeds = work
    with TemporaryDirectory() as folder:
        try:
            return name, len(seeds), _KINDS[name][0](Path(folder), seeds), ""
        except AssertionError as error:
            return name, len(seeds), 0.0, str(error)


def main() -> None:
    """Play histories in several processes and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=0, help="at the account's door")
    parser.add_argument("--whole-runs", type=int, default=0, help="through the real runner")
    parser.add_argument("--seed", type=int, default=0, help="of the first history")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    options = parser.parse_args()
    work: list[_Work] = []
    for name, count in (("door", options.histories), ("whole", options.whole_runs)):
        end, step = options.seed + count, _KINDS[name][1]
        starts = range(options.seed, end, step)
        work += [(name, range(start, min(start + step, end))) for start in starts]
    begin = time.monotonic()
    done = {"door": 0, "whole": 0}
    worst = {"door": 0.0, "whole": 0.0}
    faults: list[str] = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.workers, mp_context=context) as pool:
        for name, count, ratio, fault in pool.map(_played, work):
            done[name] += count
            worst[name] = max(worst[name], ratio)
            faults += [fault] if fault else []
            words = f"{done['door']} histories, {done['whole']} of whole runs, {len(faults)} faults"
            sys.stderr.write(f"{words}, {time.monotonic() - begin:.0f} s\n")
    seconds = round(time.monotonic() - begin, 1)
    found = {"histories": done, "worst": worst, "faults": faults, "seconds": seconds}
    sys.stdout.write(json.dumps(found) + "\n")
    sys.exit(bool(faults))

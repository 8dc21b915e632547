"""What benchmarks are made of: a command line, seconds, peaks of memory, processes of their own."""

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """The command line of a benchmark whose figures `show` prints."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="one line")
    return parser


def show(result: Any, options: argparse.Namespace) -> None:
    """Print figures as JSON, in one line where that is asked for."""
    print(json.dumps(result, indent=None if options.json else 1))


def timed(work: Callable[[], Any], repeats: int = 1) -> tuple[Any, float]:
    """The work's result, and its median seconds; of several, after one that is not counted."""
    result = work() if repeats > 1 else None
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - begin)
    return result, median(seconds)


def forget_peak() -> None:
    """Let the high-water mark of this process's memory, ``VmHWM``, start over."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def status(name: str) -> int:
    """A size of this process, such as ``VmRSS``, in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise KeyError(name)


def forked(work: Callable[[], Mapping[str, float]]) -> dict[str, float]:
    """What work gives in a process that is forked from this one."""
    reading, writing = os.pipe()
    if not (child := os.fork()):
        try:
            os.write(writing, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        found = pipe.read()
    os.waitpid(child, 0)
    return dict(json.loads(found))

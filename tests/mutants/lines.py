"""Plugins of pytest: which lines each test executes, and to run only some tests."""

import json
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Container, Generator, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any

import pytest


@dataclass(frozen=True)
class Trace:
    """A test's seconds, and the numbers of the lines that it executes, by file."""

    test: str
    seconds: float
    lines: dict[str, list[int]]

    def meets(self, path: Path, lines: Container[int]) -> bool:
        """Whether the test executes one of a file's lines."""
        return any(line in lines for line in self.lines.get(str(path), ()))


def traces_of(table: IO[str]) -> list[Trace]:
    """The traces that a recorder has written, the quickest test first."""
    table.seek(0)
    return sorted((Trace(**each) for each in json.load(table)), key=lambda each: each.seconds)


class Recorder:
    """Writes which lines of some files each test executes, in any thread."""

    def __init__(self, paths: Iterable[Path], table: IO[str]) -> None:
        self._files, self._table = frozenset(map(str, paths)), table
        self._traces: list[Trace] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Trace a test with its fixtures."""
        lines: dict[str, set[int]] = defaultdict(set)

        def trace(frame: FrameType, event: str, argument: object) -> Any:
            del argument
            file = frame.f_code.co_filename
            if event == "call" and file not in self._files:
                return None
            lines[file].add(frame.f_lineno)
            return trace

        start = time.perf_counter()
        threading.settrace(trace)
        sys.settrace(trace)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            seconds = time.perf_counter() - start
            executed = {file: sorted(numbers) for file, numbers in lines.items()}
            self._traces.append(Trace(item.nodeid, seconds, executed))

    def pytest_sessionfinish(self) -> None:
        """Write the traces, which the process that was forked from shall read."""
        json.dump([asdict(each) for each in self._traces], self._table)
        self._table.flush()


class Only:
    """Runs named tests alone, in their order, file after file."""

    def __init__(self, tests: Sequence[str]) -> None:
        self._tests = tests
        #: Their files, that of the first test first.
        self.files = tuple(dict.fromkeys(test.partition("::")[0] for test in tests))

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the named tests; a file's tests stay together, for they share fixtures."""
        place = {test: number for number, test in enumerate(self._tests)}
        file = {name: number for number, name in enumerate(self.files)}
        items[:] = sorted(
            (item for item in items if item.nodeid in place),
            key=lambda item: (file[item.nodeid.partition("::")[0]], place[item.nodeid]),
        )

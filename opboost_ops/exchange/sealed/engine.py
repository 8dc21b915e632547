"""Multiplying many points: block by block, over several processes, and not twice.

A multiplication holds the interpreter's lock, so threads gain nothing. The processes are started
from the command line, not forked: a task that is itself a daemon, as on Airflow's and Celery's
workers, may fork no other, and a fork with the threads of Arrow and polars may hang.
"""

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Protocol

import numpy as np

from opboost_ops.exchange.sealed import curve
from opboost_ops.exchange.sealed.ids import rows_of
from opboost_ops.exchange.sealed.worker import Job, Worker

#: So many points take much longer than the start of a process.
_WORTH_A_PROCESS = 8_192

#: Points in a block: what is kept at once, and what a process gets at once.
BLOCK = 65_536


class Keep(Protocol):
    """Where finished blocks are kept, whole or not at all."""

    def get(self, name: str) -> bytes | None:
        """A block, if it was kept."""

    def put(self, name: str, content: bytes) -> None:
        """Keep a block."""


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Engine:
    """How points are multiplied.

    Attributes:
        processes: At most how many at a time.
        keep: Where finished blocks are kept; nowhere when absent.
        progress: Called with what is being done, and how many of how many points are done.
        block: Points in a block.
    """

    processes: int = 1
    keep: Keep | None = None
    progress: Callable[[str, int, int], None] = lambda *_: None
    block: int = BLOCK

    def spread(self, total: int) -> "Engine":
        """One with blocks so small that each processor has some, where no other party works.

        Args:
            total: How many points there are.
        """
        processes = max(1, min(self.processes, total // _WORTH_A_PROCESS))
        return replace(self, block=min(self.block, max(1, -(-total // processes))))

    def hashed(
        self, messages: Iterable[Sequence[bytes]], tag: bytes, scalar: bytes, role: str, total: int
    ) -> Iterator[tuple[list[bytes], np.ndarray]]:
        """Hash messages to the curve, and multiply.

        Args:
            messages: Any bytes, in pieces of any size.
            tag: The domain separation tag.
            scalar: 32 bytes.
            role: What it is done for, in words that anybody may read.
            total: How many they are.

        Yields:
            Messages in their order, and their points, uint8, shape (k, 32).
        """
        jobs = (Job(scalar, block, tag) for block in _joined(messages, self.block))
        for job, points in self._run(jobs, role, total):
            yield job.items, points

    def multiplied(
        self, points: Iterable[np.ndarray], scalar: bytes, role: str, total: int
    ) -> Iterator[np.ndarray]:
        """Multiply points.

        Args:
            points: uint8, shape (n, 32) each, in pieces of any size.
            scalar: 32 bytes.
            role: What it is done for, in words that anybody may read.
            total: How many they are.

        Yields:
            uint8, shape (n, 32), for every piece.

        Raises:
            ValueError: A point is of small order.
        """
        sizes: list[int] = []

        def jobs() -> Iterator[Job]:
            for piece in points:
                sizes.append(len(piece))
                for at in range(0, len(piece), self.block):
                    yield Job(scalar, _cut(piece[at : at + self.block]))
                del piece  # It may be of a part that is read again.

        pending, yielded = [np.empty((0, curve.POINT), dtype=np.uint8)], 0
        for _, block in self._run(jobs(), role, total):
            pending.append(block)
            while yielded < len(sizes) and sizes[yielded] <= sum(map(len, pending)):
                piece = np.concatenate(pending)
                yield piece[: sizes[yielded]]
                pending, yielded = [piece[sizes[yielded] :]], yielded + 1
        # Pieces without a point may be the last, or all.
        yield from (pending[0][:0] for _ in sizes[yielded:])

    def _run(self, jobs: Iterable[Job], role: str, total: int) -> Iterator[tuple[Job, np.ndarray]]:
        done = 0
        with _workers(min(self.processes, -(-total // self.block))) as ask:
            for job, raw in ask(jobs, lambda job, work: self._kept(job, role, work)):
                done += len(raw) // curve.POINT
                self.progress(role, done, total)
                yield job, rows_of(raw, curve.POINT)

    def _kept(self, job: Job, role: str, work: Callable[[Job], bytes]) -> bytes:
        if self.keep is None:
            return work(job)
        # Named by all that it follows from: a block of another table or key is another block.
        digest = hashlib.blake2b(b"".join(job.parts()), digest_size=16).hexdigest()
        name = f"{role.replace(' ', '-')}-{digest}"
        cached = self.keep.get(name)
        if cached is None or len(cached) != curve.POINT * len(job.items):
            cached = work(job)
            self.keep.put(name, cached)
        return cached


_Work = Callable[[Job], bytes]
_Ask = Callable[[Iterable[Job], Callable[[Job, _Work], bytes]], Iterator[tuple[Job, bytes]]]


@contextmanager
def _workers(count: int) -> Iterator[_Ask]:
    """Something that does jobs in their order of results; in this process, where one is enough."""
    if count <= 1:
        yield lambda jobs, each: ((job, each(job, Job.run)) for job in jobs)
        return
    started = [Worker() for _ in range(count)]
    idle: SimpleQueue[Worker] = SimpleQueue()
    for worker in started:
        idle.put(worker)

    def work(job: Job) -> bytes:
        worker = idle.get()
        try:
            return worker.run(job)
        finally:
            idle.put(worker)

    try:
        with ThreadPoolExecutor(count) as threads:
            yield lambda jobs, each: _ahead(threads, 2 * count, jobs, lambda job: each(job, work))
    finally:
        for worker in started:
            worker.close()


def _ahead(
    threads: ThreadPoolExecutor, most: int, jobs: Iterable[Job], each: Callable[[Job], bytes]
) -> Iterator[tuple[Job, bytes]]:
    """Results in the order of the jobs, of which no more than a few are under way."""
    begun: deque[tuple[Job, Future[bytes]]] = deque()
    try:
        for job in jobs:
            begun.append((job, threads.submit(each, job)))
            if len(begun) >= most:
                first, result = begun.popleft()
                yield first, result.result()
        while begun:
            first, result = begun.popleft()
            yield first, result.result()
    finally:
        for _, result in begun:
            result.cancel()


def _joined(pieces: Iterable[Sequence[bytes]], size: int) -> Iterator[list[bytes]]:
    """The same messages in pieces of one size, but for the last."""
    pending: list[bytes] = []
    for piece in pieces:
        pending += piece
        while len(pending) >= size:
            yield pending[:size]
            pending = pending[size:]
    if pending:
        yield pending


def _cut(points: np.ndarray) -> list[bytes]:
    raw = np.ascontiguousarray(points).tobytes()
    return [raw[i : i + curve.POINT] for i in range(0, len(raw), curve.POINT)]

"""Multiplication of many points: block by block, in several processes, with a cache of blocks.

A multiplication holds the interpreter's lock, so threads gain nothing. The processes are started
as new interpreters, not forked: tasks on Airflow's and Celery's workers are daemon processes, which
may not fork, and a fork beside the threads of Arrow and polars may hang.
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

#: Number of points that take much longer than the start of a process.
_WORTH_A_PROCESS = 8_192

#: Points per block, the unit of caching and of work for a process.
BLOCK = 65_536


class BlockCache(Protocol):
    """Stores finished blocks atomically."""

    def get(self, name: str) -> bytes | None:
        """Return a block; None if it is not stored."""

    def put(self, name: str, content: bytes) -> None:
        """Store a block."""


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Engine:
    """Multiplies points.

    Attributes:
        processes: Maximum number of processes.
        cache: Stores finished blocks; None for no cache.
        progress: Called with the role of a computation, the points done and all its points.
        block: Points per block.
    """

    processes: int = 1
    cache: BlockCache | None = None
    progress: Callable[[str, int, int], None] = lambda *_: None
    block: int = BLOCK

    def spread(self, total: int) -> "Engine":
        """Return an engine with blocks small enough to occupy all processes.

        Used while no other party computes.

        Args:
            total: Number of points.
        """
        processes = max(1, min(self.processes, total // _WORTH_A_PROCESS))
        return replace(self, block=min(self.block, max(1, -(-total // processes))))

    def hash_and_multiply(
        self, messages: Iterable[Sequence[bytes]], tag: bytes, scalar: bytes, role: str, total: int
    ) -> Iterator[tuple[list[bytes], np.ndarray]]:
        """Hash messages to the curve, and multiply.

        Args:
            messages: Any bytes, in pieces of any size.
            tag: The domain separation tag.
            scalar: 32 bytes.
            role: Public name of the computation, for progress and the cache.
            total: Number of messages.

        Yields:
            Messages in their order, and their points, uint8, shape (k, 32).
        """
        jobs = (Job(scalar, block, tag) for block in _rechunked(messages, self.block))
        for job, points in self._run(jobs, role, total):
            yield job.items, points

    def multiply(
        self, points: Iterable[np.ndarray], scalar: bytes, role: str, total: int
    ) -> Iterator[np.ndarray]:
        """Multiply points.

        Args:
            points: uint8, shape (n, 32) each, in pieces of any size.
            scalar: 32 bytes.
            role: Public name of the computation, for progress and the cache.
            total: Number of points.

        Yields:
            The products of each piece, uint8, shape (n, 32).

        Raises:
            ValueError: A point is of small order.
        """
        sizes: list[int] = []

        def jobs() -> Iterator[Job]:
            for piece in points:
                sizes.append(len(piece))
                for at in range(0, len(piece), self.block):
                    yield Job(scalar, _cut(piece[at : at + self.block]))
                del piece  # Releases the memory of a part that can be read again.

        pending, yielded = [np.empty((0, curve.POINT), dtype=np.uint8)], 0
        for _, block in self._run(jobs(), role, total):
            pending.append(block)
            while yielded < len(sizes) and sizes[yielded] <= sum(map(len, pending)):
                piece = np.concatenate(pending)
                yield piece[: sizes[yielded]]
                pending, yielded = [piece[sizes[yielded] :]], yielded + 1
        # The last pieces, or all, may be empty.
        yield from (pending[0][:0] for _ in sizes[yielded:])

    def _run(self, jobs: Iterable[Job], role: str, total: int) -> Iterator[tuple[Job, np.ndarray]]:
        done = 0
        with _workers(min(self.processes, -(-total // self.block))) as ask:
            for job, raw in ask(jobs, lambda job, work: self._cached(job, role, work)):
                done += len(raw) // curve.POINT
                self.progress(role, done, total)
                yield job, rows_of(raw, curve.POINT)

    def _cached(self, job: Job, role: str, work: Callable[[Job], bytes]) -> bytes:
        if self.cache is None:
            return work(job)
        # The name is a digest of all inputs: other messages or keys give another block.
        digest = hashlib.blake2b(b"".join(job.parts()), digest_size=16).hexdigest()
        name = f"{role.replace(' ', '-')}-{digest}"
        cached = self.cache.get(name)
        if cached is None or len(cached) != curve.POINT * len(job.items):
            cached = work(job)
            self.cache.put(name, cached)
        return cached


_Work = Callable[[Job], bytes]
_Ask = Callable[[Iterable[Job], Callable[[Job, _Work], bytes]], Iterator[tuple[Job, bytes]]]


@contextmanager
def _workers(count: int) -> Iterator[_Ask]:
    """Start workers, and return a function that yields the results of jobs in their order."""
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
    threads: ThreadPoolExecutor, limit: int, jobs: Iterable[Job], each: Callable[[Job], bytes]
) -> Iterator[tuple[Job, bytes]]:
    """Yield results in the order of the jobs, with a limited number of jobs in progress."""
    begun: deque[tuple[Job, Future[bytes]]] = deque()
    try:
        for job in jobs:
            begun.append((job, threads.submit(each, job)))
            if len(begun) >= limit:
                first, result = begun.popleft()
                yield first, result.result()
        while begun:
            first, result = begun.popleft()
            yield first, result.result()
    finally:
        for _, result in begun:
            result.cancel()


def _rechunked(pieces: Iterable[Sequence[bytes]], size: int) -> Iterator[list[bytes]]:
    """Yield the same messages in pieces of one size; the last may be smaller."""
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

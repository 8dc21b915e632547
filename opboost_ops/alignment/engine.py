"""Multiplying many points: block by block, over several processes, and not twice.

A multiplication holds the interpreter's lock, so threads gain nothing. The processes are started
from the command line, not forked: a task that is itself a daemon, as on Airflow's and Celery's
workers, may fork no other, and a fork with the threads of Arrow and polars may hang.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Protocol

import numpy as np

from opboost_ops.alignment import curve
from opboost_ops.alignment.tags import rows_of
from opboost_ops.alignment.worker import Job, Worker

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

    def hashed(self, messages: Sequence[bytes], tag: bytes, scalar: bytes, role: str) -> np.ndarray:
        """Hash messages to the curve, and multiply.

        Args:
            messages: Any bytes.
            tag: The domain separation tag.
            scalar: 32 bytes.
            role: What it is done for, in words that anybody may read.

        Returns:
            uint8, shape (n, 32).
        """
        parts = [messages[i : i + self.block] for i in range(0, len(messages), self.block)]
        return self._run([Job(scalar, list(part), tag) for part in parts], role, len(messages))

    def multiplied(self, points: np.ndarray, scalar: bytes, role: str) -> np.ndarray:
        """Multiply points.

        Args:
            points: uint8, shape (n, 32).
            scalar: 32 bytes.
            role: What it is done for, in words that anybody may read.

        Returns:
            uint8, shape (n, 32).

        Raises:
            ValueError: A point is of small order.
        """
        blocks = (points[i : i + self.block] for i in range(0, len(points), self.block))
        return self._run([Job(scalar, _cut(block)) for block in blocks], role, len(points))

    def _run(self, jobs: list[Job], role: str, total: int) -> np.ndarray:
        done, found = 0, []
        with _workers(min(self.processes, len(jobs))) as ask:
            for part in ask(jobs, lambda job, work: self._kept(job, role, work)):
                found.append(part)
                done += len(part) // curve.POINT
                self.progress(role, done, total)
        return rows_of(b"".join(found), curve.POINT)

    def _kept(self, job: Job, role: str, work: Callable[[Job], bytes]) -> bytes:
        if self.keep is None:
            return work(job)
        # Named by all that it follows from: a block of another table or key is another block.
        digest = hashlib.blake2b(b"".join(job.parts()), digest_size=16).hexdigest()
        name = f"{role.replace(' ', '-')}-{digest}"
        kept = self.keep.get(name)
        if kept is None or len(kept) != curve.POINT * len(job.items):
            kept = work(job)
            self.keep.put(name, kept)
        return kept


_Work = Callable[[Job], bytes]
_Ask = Callable[[Sequence[Job], Callable[[Job, _Work], bytes]], Iterator[bytes]]


@contextmanager
def _workers(count: int) -> Iterator[_Ask]:
    """Something that does jobs in their order of results; in this process, where one is enough."""
    if count <= 1:
        yield lambda jobs, each: (each(job, Job.run) for job in jobs)
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
            yield lambda jobs, each: threads.map(lambda job: each(job, work), jobs)
    finally:
        for worker in started:
            worker.close()


def _cut(points: np.ndarray) -> list[bytes]:
    raw = np.ascontiguousarray(points).tobytes()
    return [raw[i : i + curve.POINT] for i in range(0, len(raw), curve.POINT)]

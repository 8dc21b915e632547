"""A process that multiplies points: jobs on standard input, results on standard output."""

import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from opboost_ops.errors import ContractError
from opboost_ops.exchange.sealed import curve

_LENGTH = struct.Struct("<I")
_GOOD, _BAD = b"\x01", b"\x00"


@dataclass(frozen=True)
class Job:
    """A block of points to compute.

    Attributes:
        scalar: The multiplier, 32 bytes.
        items: Messages, or points of 32 bytes.
        tag: The domain separation tag under which messages are hashed; None for points.
    """

    scalar: bytes = field(repr=False)
    items: list[bytes] = field(repr=False)
    tag: bytes | None = None

    def run(self) -> bytes:
        """Return the multiplied points, concatenated.

        Raises:
            ValueError: A point is of small order.
        """
        items = self.items
        points = items if self.tag is None else curve.hash_to_curve(items, self.tag)
        return b"".join(curve.multiply(self.scalar, points))

    def parts(self) -> Iterator[bytes]:
        """Yield the job's bytes: the number of items, then each part after its length."""
        fixed = (self.scalar, b"" if self.tag is None else b"+" + self.tag)
        yield _LENGTH.pack(len(self.items))
        for part in (*fixed, *self.items):
            yield _LENGTH.pack(len(part))
            yield part


class Worker:
    """A worker process, controlled by its parent."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "opboost_ops.exchange.sealed.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def run(self, job: Job) -> bytes:
        """Run a job, one at a time.

        Raises:
            ValueError: A point is of small order.
            ContractError: The process has ended.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(b"".join(job.parts()))
            stdin.flush()
            status = stdout.read(1)
            answer = stdout.read(curve.POINT * len(job.items)) if status == _GOOD else b""
        except OSError:
            status, answer = b"", b""
        if status == _BAD:
            raise ValueError("a point of small order")
        if len(answer) != curve.POINT * len(job.items):
            raise ContractError(
                "A process that multiplies points was killed.",
                "Free some memory, or lower alignment_processes in site.yaml; then clear this "
                "task: finished blocks are cached.",
            )
        return answer

    def close(self) -> None:
        """End the process."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except OSError:
                continue  # The process ended before it had read all input.
        self._process.wait()


def main() -> None:
    """Run jobs until the end of input."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while True:
        head = source.read(_LENGTH.size)
        if len(head) < _LENGTH.size:
            return
        scalar, tag = _part(source), _part(source)
        items = [_part(source) for _ in range(_LENGTH.unpack(head)[0])]
        try:
            answer = _GOOD + Job(scalar, items, tag[1:] if tag else None).run()
        except ValueError:
            answer = _BAD
        sink.write(answer)
        sink.flush()


def _part(source: BinaryIO) -> bytes:
    return source.read(_LENGTH.unpack(source.read(_LENGTH.size))[0])


if __name__ == "__main__":
    main()

"""Fuzz a reader of foreign bytes: ``python -m tests.fuzz TARGET --seconds 1800``.

Atheris mutates the committed corpus towards code that was not reached yet (``pip install
atheris``, on Linux). A run ends at an exception that is no refusal, an input that takes over two
processor seconds, or one that takes more memory than ten times its size and 256 MiB; the input is
written to ``--crashes``.
"""

import argparse
import contextlib
import resource
import sys
import tempfile
import time
from pathlib import Path

import atheris  # type: ignore[import-untyped]

#: Processor seconds, and bytes besides ten times the input, that one input may take.
SECONDS, ROOM = 2.0, 256 << 20


def main() -> None:
    """Fuzz one target."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("target")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--crashes", type=Path, default=Path("crashes"))
    chosen = parser.parse_args()
    with atheris.instrument_imports(include=["opboost_ops", "tests.fuzz.targets"]):
        from opboost_ops.errors import OpBoostError
        from tests.fuzz.targets import CORPUS, TARGETS
    target = TARGETS[chosen.target]

    def check(raw: bytes) -> None:
        begin, before = time.process_time(), _peak()
        with contextlib.suppress(OpBoostError):
            target(raw)
        taken, grown = time.process_time() - begin, _peak() - before
        if taken > SECONDS:
            raise TimeoutError(f"{taken:.1f} s for {len(raw)} bytes")
        if grown > 10 * len(raw) + ROOM:
            raise MemoryError(f"{grown} bytes for {len(raw)} bytes")

    chosen.crashes.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as grown:
        options = [
            f"-max_total_time={chosen.seconds}",
            f"-artifact_prefix={chosen.crashes}/{chosen.target}-",
            "-max_len=65536",
            "-rss_limit_mb=4096",
            "-print_final_stats=1",
        ]
        folders = [grown, str(CORPUS / chosen.target)]
        atheris.Setup([sys.argv[0], *options, *folders], check)
        atheris.Fuzz()


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()

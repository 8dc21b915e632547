"""Fuzz a reader of foreign bytes: ``python -m tests.fuzz TARGET --seconds 1800``.

Atheris mutates the committed corpus towards code that was not reached yet (``pip install
atheris``, on Linux): JSON by its entries, all else by its bytes. A run ends at an exception that is
no refusal, an input that takes over two processor seconds, or one that takes more memory than ten
times its size and 256 MiB; the input is written to ``--crashes``.
"""

import argparse
import contextlib
import copy
import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import atheris  # type: ignore[import-untyped]

#: Processor seconds, and bytes besides ten times the input, that one input may take.
SECONDS, ROOM = 2.0, 256 << 20

#: What an entry is replaced by.
VALUES = (
    *(None, True, 0, -1, 0.5, 2**31, 2**63, 10**30, 1e308),
    *("", "a", "0" * 64, "x" * 1000, "../x", "1e3", [], {}, [[]], {"": {}}),
)


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
        atheris.Setup([sys.argv[0], *options, *folders], check, custom_mutator=_mutated)
        atheris.Fuzz()


def _mutated(raw: bytes, most: int, seed: int) -> bytes:
    """Change an entry of a JSON text, or some bytes of anything."""
    draws = random.Random(seed)
    changed = b""
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(raw)
        entries = [*_entries(value)]
        for _ in range(draws.randint(1, 3) if entries and draws.random() < 0.9 else 0):
            holder, at = draws.choice(entries)
            other, there = draws.choice(entries)
            with contextlib.suppress(LookupError):
                old = holder.pop(at)
                new = draws.choice([copy.deepcopy(other[there]), *VALUES, _changed(old)])
                if draws.random() < 0.9:
                    holder.insert(at, new) if isinstance(holder, list) else holder.update({at: new})
        changed = json.dumps(value).encode() if entries else b""
    return changed if 0 < len(changed) <= most else bytes(atheris.Mutate(raw, most))


def _entries(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield all lists and objects in a JSON value, with each of their indices or keys."""
    if isinstance(value, dict | list):
        for at, inner in [*(value.items() if isinstance(value, dict) else enumerate(value))]:
            yield value, at
            yield from _entries(inner)


def _changed(old: Any) -> Any:
    """A text with some other bytes, or a number a little further."""
    if isinstance(old, str):
        return bytes(atheris.Mutate(old.encode(), len(old) + 8)).decode(errors="replace")
    return old + 1 if isinstance(old, int | float) else [old]


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()

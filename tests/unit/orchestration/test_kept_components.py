"""A component that ends by itself comes back, however long what it needs is away."""

import os
import subprocess
from pathlib import Path

import pytest

from opboost_ops.orchestration.parties.commands import _KEEP, ENDED

#: Notes the pause instead of making it, and ends the loop after ten of them.
SLEEP = """#!/bin/sh
echo "$1" >>"$NOTES"
if [ "$(wc -l <"$NOTES")" -ge 10 ]; then kill $PPID; fi
"""

#: A clock that jumps at every look.
DATE = """#!/bin/sh
now=$(($(cat "$CLOCK" 2>/dev/null || echo 0) + JUMP))
echo $now >"$CLOCK"; echo $now
"""


def pauses(folder: Path, jump: int) -> tuple[list[int], str]:
    for name, text in (("sleep", SLEEP), ("date", DATE)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    notes, clock = folder / "notes", folder / "clock"
    environment = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "NOTES": str(notes),
        "CLOCK": str(clock),
        "JUMP": str(jump),
    }
    done = subprocess.run(
        ["/bin/sh", "-c", _KEEP, "component", "/bin/sh", "-c", "exit 3"],
        env=environment, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    return [int(line) for line in notes.read_text().split()], done.stdout


@pytest.mark.parametrize(
    ("lasts", "expected"),
    [(1, [1, 2, 4, 8, 16, 30, 30, 30, 30, 30]), (100, [1] * 10)],
)
def test_it_is_started_again_for_as_long_as_it_is_wanted(
    tmp_path: Path, lasts: int, expected: list[int]
) -> None:
    found, told = pauses(tmp_path, lasts)
    assert found == expected
    lines = told.splitlines()
    assert all(line.startswith(f"{ENDED} 3 after {lasts} s") for line in lines)
    assert len(lines) == 10

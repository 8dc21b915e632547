"""Sixteen processes race for the last of a budget on SQLite; PostgreSQL is in the slow tests."""

import subprocess
import sys
from pathlib import Path

from opboost_ops.domain import Domain
from opboost_ops.mechanisms import GlobalMap
from opboost_ops.privacy.database import Database
from opboost_ops.privacy.ledger import Ledger
from opboost_ops.privacy.loss import loss_curve

PROCESSES, FITS = 16, 5


def race(url: str) -> list[str]:
    """What each of the racing processes was told."""
    whole = float(loss_curve(GlobalMap(epsilon=0.5), Domain(1, 10)).loss[-1])
    script = Path(__file__).with_name("race.py")
    budget = str(whole * FITS * 1.0001)
    running = [
        subprocess.Popen(
            [sys.executable, script, url, str(i), budget],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(PROCESSES)
    ]
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [process.communicate(timeout=120)[0].strip() for process in running]


def test_sixteen_racing_processes_never_overspend(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    told = race(url)
    assert sorted(told) == ["refused"] * (PROCESSES - FITS) + ["reserved"] * FITS
    assert len(Ledger(Database(url)).releases()) == FITS

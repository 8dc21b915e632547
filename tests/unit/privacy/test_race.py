"""Processes race with draws of one column on SQLite; PostgreSQL is in the slow tests."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from opboost_ops.domain import Domain
from opboost_ops.mechanisms import GlobalMap
from opboost_ops.privacy.accountant import accounts
from opboost_ops.privacy.cells import Cells
from opboost_ops.privacy.database import Database
from opboost_ops.privacy.ledger import Ledger
from opboost_ops.privacy.loss import loss_curve

PROCESSES, FITS = 6, 2
ONE = float(loss_curve(GlobalMap(epsilon=0.5), Domain(0, 31)).loss[-1])


def race(
    url: str, cells: Path, fits: float = FITS, most: int = 0, processes: int = PROCESSES
) -> list[str]:
    """What each of the racing processes was told."""
    script = Path(__file__).with_name("race.py")
    budget = str(ONE * fits * 1.0001)
    command = [sys.executable, script, url, cells, str(processes), budget, str(most)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=True)
    return done.stdout.split()


def test_racing_processes_never_overspend(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    told = race(url, tmp_path / "cells")
    assert told.count("refused") == PROCESSES - FITS
    assert len(Ledger(Database(url)).releases()) == FITS


def test_racing_processes_never_pass_the_cap_on_changes(tmp_path: Path) -> None:
    """No write of one process is lost in another's, so the cap is on all of them together."""
    most = 3
    url = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    told = race(url, tmp_path / "cells", PROCESSES, most)
    assert len(set(told)) == most
    cells = Cells(tmp_path / "cells", Database(url))
    ((place, found),) = cells.generations().items()
    state = cells.load(*place)
    assert state is not None
    assert state.changes().tolist() == [most, 1]
    bits = np.unpackbits(state.seen[0], bitorder="little")
    assert {str(value) for value in np.flatnonzero(bits)} == set(told)
    (account,) = accounts(Ledger(Database(url)).releases()).values()
    assert float(account.whole) == pytest.approx(most * ONE)
    left = {p.name: p.suffix for p in (tmp_path / "cells").iterdir()}
    assert left.pop(found.name)
    assert list(left.values()) == [".people"]

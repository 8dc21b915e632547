"""Nothing leaves that is not charged, whatever happens to a party."""

from pathlib import Path

import pytest

from tests.oracle import whole_runs
from tests.oracle.judge import worst_of


def test_no_history_loses_more_than_its_ledger_says(tmp_path: Path) -> None:
    assert worst_of(tmp_path, range(25)) == pytest.approx(1.0)


@pytest.mark.slow
def test_none_of_many_histories_does(tmp_path: Path) -> None:
    assert worst_of(tmp_path, range(1000, 1250), neighbours=4) == pytest.approx(1.0)


@pytest.mark.slow
def test_none_of_many_histories_of_whole_runs_does(tmp_path: Path) -> None:
    assert whole_runs.worst_of(tmp_path, range(5)) == pytest.approx(1.0)

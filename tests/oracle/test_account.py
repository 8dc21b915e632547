"""Nothing leaves that is not charged, whatever happens to a party."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import ModuleType

import pytest

from opboost_ops.privacy import releases
from opboost_ops.privacy.declarations import Declaration
from tests.oracle.account import Party, channels, declaration, other_values
from tests.oracle.histories import DECLARATIONS, history
from tests.oracle.reader import Sent, Verdict, read


@lru_cache
def _declared() -> Mapping[str, Declaration]:
    return {name: declaration(name) for name in DECLARATIONS}


def judged(
    folder: Path,
    seed: int,
    declared: Mapping[str, Declaration],
    code: ModuleType = releases,
    *,
    agreed: Sequence[str] = (),
    neighbour: bool = False,
) -> tuple[Verdict, list[Sent], list[Sent]]:
    """Play a history, and its neighbour if asked, and read what left."""
    events = history(seed, agreed)
    party = Party(folder, declared, code)
    party.play(events, seed)
    verdict = read(party.sent, party.stated(), channels(declared))
    party.close()
    other: list[Sent] = []
    if neighbour:
        twin = Party(folder, declared, code)
        twin.play(other_values(events, party.used), seed)
        other = twin.sent
        twin.close()
    return verdict, party.sent, other


def _check(folder: Path, seeds: Iterable[int]) -> None:
    worst = 0.0
    for seed in seeds:
        verdict, sent, other = judged(folder, seed, _declared(), neighbour=True)
        assert not verdict.faults, f"history {seed}: {verdict.faults}"
        assert sent == other, f"history {seed} follows values that were not read"
        worst = max(worst, verdict.worst)
    assert worst == pytest.approx(1.0)


def test_no_history_loses_more_than_its_ledger_says(tmp_path: Path) -> None:
    _check(tmp_path, range(25))


@pytest.mark.slow
def test_none_of_many_histories_does(tmp_path: Path) -> None:
    _check(tmp_path, range(1000, 1300))

"""Plays histories at the account's door and lets the reader judge what left."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from opboost_ops.privacy import releases
from opboost_ops.privacy.declarations import Declaration
from tests.oracle.account import Party, channels, declaration, other_values
from tests.oracle.histories import DECLARATIONS, history
from tests.oracle.reader import Verdict, read


@lru_cache
def all_declarations() -> Mapping[str, Declaration]:
    """The declarations of the oracle, by name."""
    return {name: declaration(name) for name in DECLARATIONS}


def judged(
    folder: Path,
    seed: int,
    declared: Mapping[str, Declaration],
    code: ModuleType = releases,
    *,
    agreed: Sequence[str] = (),
) -> tuple[Verdict, Party]:
    """Play a history, and read what left.

    Args:
        folder: The party's.
        seed: Of the history.
        declared: The declarations that the party may agree to.
        code: The module `privacy.releases`, or one that differs from it.
        agreed: The declarations in the history; some at random without any.
    """
    party = Party(folder, declared, code)
    party.play(history(seed, agreed), seed)
    verdict = read(party.sent, party.stated(), channels(declared))
    party.close()
    return verdict, party


def same_without_unread_values(folder: Path, seed: int, party: Party) -> bool:
    """Whether the same leaves where all values that were not read are others.

    Args:
        folder: A party's.
        seed: Of the history.
        party: The one to which the history has happened.
    """
    twin = Party(folder, all_declarations())
    twin.play(other_values(history(seed), party.used), seed)
    twin.close()
    return twin.sent == party.sent


def worst_of(folder: Path, seeds: Iterable[int], neighbours: int = 1) -> float:
    """The largest exact loss over what was charged for it, of histories without a fault.

    Args:
        folder: A party's.
        seeds: Of the histories.
        neighbours: Each so many-th history is compared with its neighbour.

    Raises:
        AssertionError: A history has a fault.
    """
    worst = 0.0
    for seed in seeds:
        verdict, party = judged(folder, seed, all_declarations())
        assert not verdict.faults, f"history {seed}: {verdict.faults}"
        if not seed % neighbours:
            same = same_without_unread_values(folder, seed, party)
            assert same, f"history {seed} follows values that were not read"
        worst = max(worst, verdict.worst)
    return worst

"""Redaction of a stage's summary, because everybody who sees the run reads it.

A fact on private data is in a summary only where the stage says what it tells: then it has a ledger
entry towards everyone who sees the run. All else stays in the party's home, for its own people:
counts of rows, splits and thresholds, and at the label holder all that follows from the common
people, whom feature holders are not to know.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from opboost_ops.pipeline.stage import SKIP, Context, Home

#: Names that are told one by one; of more, only how many there are and what they come to.
_MOST = 16


def counts(by_name: Mapping[str, int]) -> dict[str, int]:
    """Counts by name, or their sum where there are many.

    Args:
        by_name: Public counts, such as of thresholds by feature.

        >>> counts({"bank.income": 3})
        {'bank.income': 3}
        >>> counts({f"bank.x{i}": 2 for i in range(100)})
        {'names': 100, 'sum': 200}
    """
    if len(by_name) <= _MOST:
        return dict(by_name)
    return {"names": len(by_name), "sum": sum(by_name.values())}


def digests(full: Sequence[str]) -> list[str]:
    """Digests of artifacts in short, or where there are many, one of all of them.

    Args:
        full: In their order, hex.
    """
    if len(full) <= _MOST:
        return [digest[:16] for digest in full]
    return [f"{len(full)} artifacts, {hashlib.sha256(''.join(full).encode()).hexdigest()[:16]}"]


def verdicts(passed: Mapping[str, bool]) -> dict[str, Any]:
    """How many checks passed, and the names of those that failed.

    Args:
        passed: By boundary.
    """
    failed = [name for name, good in passed.items() if not good]
    return {"passed": len(passed) - len(failed), "failed": failed[:_MOST]}


#: Folder of a run's home with the whole summary of each stage that leaves something out.
FOLDER = "summaries"

#: What stands for the words of a decision.
WORDS = "only the label holder sees the reason"

#: The first stage that knows who is common.
_FIRST = "open_rows"

#: Entries that follow from declared files and the plan, or that a signed artifact for all parties
#: says: digests, the version that is champion in the next plan, the transcript of the rounds.
PUBLIC = frozenset(
    {"champion", "conversation", "features", "mode", "parties", "private", "published", "ranked",
     "trees", "version", SKIP}
)  # fmt: skip


def redact(
    context: Context, stage: str, summary: Mapping[str, Any], entered: bool
) -> dict[str, Any]:
    """The public part of a summary.

    Args:
        context: The stage's.
        stage: Its name.
        summary: All of it.
        entered: Whether the party's ledger has an entry of what the summary tells everybody.
    """
    if entered and not follows_opening(context, stage):
        return dict(summary)
    public = {name: value for name, value in summary.items() if name in PUBLIC}
    return {**public, "why": WORDS} if "why" in summary else public


def follows_opening(context: Context, stage: str) -> bool:
    """True if a stage's results follow from the common people.

    Args:
        context: The stage's.
        stage: Its name.
    """
    stages = context.stages
    mine = context.party == context.federation.label_holder and _FIRST in stages
    return mine and stages.index(stage) >= stages.index(_FIRST)


def whole(home: Home, stage: str, summary: Mapping[str, Any]) -> dict[str, Any]:
    """All of a summary, for the operator of the party.

    Args:
        home: The party's, of the run.
        stage: The stage's name.
        summary: What was told.
    """
    name = f"{FOLDER}/{stage}"
    return dict(home.json(name)) if home.has(name) else dict(summary)

"""Redaction of a stage's summary, because everyone who sees the run can read it.

A fact about private data stays in a summary only if the step declares its disclosure, which then
has a ledger entry towards everyone who sees the run. All other facts stay in the party's home, for
its own people: counts of rows, splits and thresholds, and at the label holder everything that
depends on the common people, who must stay unknown to feature holders.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from opboost_ops.pipeline.stage import SKIP, Context, Home

#: Maximum names that are listed; longer lists are replaced by their number and sum.
_MOST = 16


def counts(by_name: Mapping[str, int]) -> dict[str, int]:
    """Return counts by name, or their number and sum if there are many.

    Args:
        by_name: Public counts, such as numbers of thresholds by feature.

        >>> counts({"bank.income": 3})
        {'bank.income': 3}
        >>> counts({f"bank.x{i}": 2 for i in range(100)})
        {'names': 100, 'sum': 200}
    """
    if len(by_name) <= _MOST:
        return dict(by_name)
    return {"names": len(by_name), "sum": sum(by_name.values())}


def digests(full: Sequence[str]) -> list[str]:
    """Return shortened digests of artifacts, or one digest of all if there are many.

    Args:
        full: Digests in order, hex.
    """
    if len(full) <= _MOST:
        return [digest[:16] for digest in full]
    return [f"{len(full)} artifacts, {hashlib.sha256(''.join(full).encode()).hexdigest()[:16]}"]


def verdicts(passed: Mapping[str, bool]) -> dict[str, Any]:
    """Return the number of passed checks, and the names of failed ones.

    Args:
        passed: Verdicts by boundary.
    """
    failed = [name for name, good in passed.items() if not good]
    return {"passed": len(passed) - len(failed), "failed": failed[:_MOST]}


#: Folder in a run's home with the full summary of each stage whose public one is redacted.
FOLDER = "summaries"

#: Replacement for the reason of a decision.
WORDS = "only the label holder sees the reason"

#: The first stage that knows the common people.
_FIRST = "open_rows"

#: Entries derived from declared files, the plan or a signed artifact for all parties: digests, the
#: champion's version in the next plan, the transcript of the rounds.
PUBLIC = frozenset(
    {"champion", "conversation", "features", "mode", "parties", "private", "published", "ranked",
     "trees", "version", SKIP}
)  # fmt: skip


def redact(
    context: Context, stage: str, summary: Mapping[str, Any], entered: bool
) -> dict[str, Any]:
    """Return the public part of a summary.

    Args:
        context: The stage's context.
        stage: Name of the stage.
        summary: The full summary.
        entered: True if the party's ledger has an entry for what the summary discloses.
    """
    if entered and not follows_opening(context, stage):
        return dict(summary)
    public = {name: value for name, value in summary.items() if name in PUBLIC}
    return {**public, "why": WORDS} if "why" in summary else public


def follows_opening(context: Context, stage: str) -> bool:
    """Return True if a stage's results depend on the common people.

    Args:
        context: The stage's context.
        stage: Name of the stage.
    """
    stages = context.stages
    mine = context.party == context.federation.label_holder and _FIRST in stages
    return mine and stages.index(stage) >= stages.index(_FIRST)


def whole(home: Home, stage: str, summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return a full summary, for the operator of the party.

    Args:
        home: The party's home of the run.
        stage: Name of the stage.
        summary: The public summary.
    """
    name = f"{FOLDER}/{stage}"
    return dict(home.json(name)) if home.has(name) else dict(summary)

"""What a stage's summary leaves out, because everybody who sees the run reads it.

A fact on private data is in a summary only where the stage says what it tells: then it has a ledger
entry towards everyone who sees the run. All else stays in the party's home, for its own people:
counts of rows, splits and thresholds, and at the label holder all that follows from the common
people, whom feature holders are not to know.
"""

from collections.abc import Mapping
from typing import Any

from opboost_ops.pipeline.stage import SKIP, Context, Home

#: Folder of a run's home with the whole summary of each stage that leaves something out.
FOLDER = "summaries"

#: What stands for the words of a decision.
WORDS = "the reason is told to the label holder's own people alone"

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
    """What anybody may see of a summary.

    Args:
        context: The stage's.
        stage: Its name.
        summary: All of it.
        entered: Whether the party's ledger has an entry of what the summary tells everybody.
    """
    if entered and not follows_opening(context, stage):
        return dict(summary)
    told = {name: value for name, value in summary.items() if name in PUBLIC}
    return {**told, "why": WORDS} if "why" in summary else told


def follows_opening(context: Context, stage: str) -> bool:
    """Whether a stage's results follow from the common people.

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

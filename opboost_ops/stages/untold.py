"""What the label holder's summaries leave out, which others may see.

Feature holders are not to know who is common, nor how many. Row counts, metrics and whatever else
follows from the common people stay in the label holder's home, for its own people.
"""

from collections.abc import Mapping
from typing import Any

from opboost_ops.stages.stage import SKIP, Context, Home

#: Folder of a run's home with the whole summary of each stage that leaves something out.
FOLDER = "summaries"

#: What stands for the words of a decision.
WORDS = "the reason is told to the label holder's own people alone"

#: The first stage that knows who is common.
_FIRST = "open_rows"

#: Entries that are as declared, or that anybody sees who sees the exchange; that there is a new
#: champion, the next plan says.
_TOLD = frozenset(
    {"champion", "checks", "features", "mode", "published", "ranked", "trees",
     "version", SKIP}
)  # fmt: skip


def narrowed(context: Context, stage: str, summary: Mapping[str, Any]) -> dict[str, Any]:
    """What anybody may see of a summary.

    Args:
        context: The stage's.
        stage: Its name.
        summary: All of it.
    """
    federation, stages = context.federation, context.stages
    mine = context.party == federation.label_holder
    if not (mine and _FIRST in stages):
        return dict(summary)
    if stages.index(stage) < stages.index(_FIRST):
        return dict(summary)
    told = {name: value for name, value in summary.items() if name in _TOLD}
    return {**told, "why": WORDS} if "why" in summary else told


def whole(home: Home, stage: str, summary: Mapping[str, Any]) -> dict[str, Any]:
    """All of a summary, for whoever runs the party.

    Args:
        home: The party's, of the run.
        stage: The stage's name.
        summary: What was told.
    """
    name = f"{FOLDER}/{stage}"
    return dict(home.json(name)) if home.has(name) else dict(summary)

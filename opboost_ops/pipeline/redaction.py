"""Redaction of a stage's summary and failure, because everyone who sees the run can read them.

A fact about private data stays in a summary only if the step declares its disclosure, which then
has a ledger entry towards everyone who sees the run. All other facts stay in the party's home, for
its own people: counts of rows, splits and thresholds, and at the label holder everything that
depends on the common people, who must stay unknown to feature holders.
"""

import hashlib
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from opboost_ops.errors import ContractError, OpBoostError, RowsError, SetupError, is_disk_full
from opboost_ops.exchange.party_state import open_state
from opboost_ops.pipeline.protocol import STEPS
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


#: File in a run's home with the reason of a failure, for the party's own people.
REASON = "errors/reason.txt"

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


def redact_failure(context: Context, stage: str, error: Exception) -> Exception:
    """Replace a failure that depends on private rows by a fixed message; store its reason at home.

    Until it opens rows, the label holder's failures concern its own table alone, and it reports
    them, without figures of its rows; so do parties of horizontal learning. Failures of files,
    keys, clocks, stores, policies, budgets and other parties' artifacts are public.

    Args:
        context: The stage's context.
        stage: Name of the stage.
        error: The failure, which is being handled.

    Returns:
        The same error if it is public; otherwise one whose message is the same for every reason.
    """
    hidden = isinstance(error, RowsError) or context.party in context.federation.feature_holders
    if _is_public(error) or not (hidden or follows_opening(context, stage)):
        return error
    text = str(error) if isinstance(error, OpBoostError) else traceback.format_exc()
    _keep_reason(context.home, f"{stage}: {text}\n{_charged(context)}")
    place = f"{context.federation.name}/{context.run}/{REASON}"
    return ContractError(
        _public_problem(context.stages, stage).format(context.party),
        f"Its own people find the reason in {place} in its home folder.",
    )


def _public_problem(stages: Sequence[str], stage: str) -> str:
    """Return the stage's message, or that of the nearest stage before it, or else after it."""
    at = stages.index(stage)
    nearest = (*stages[at::-1], *stages[at:])
    return next(STEPS[name].problem for name in nearest if STEPS[name].problem)


def _charged(context: Context) -> str:
    """Describe the run's charges in the party's ledger."""
    with open_state(context.site) as state:
        entries = [entry for _, entry in state.ledger.of_run(context.federation.name, context.run)]
    features = sorted({entry.feature or "" for entry in entries if entry.kind == "release"})
    if not features:
        return "This run has charged no release."
    return f"This run has charged releases of {', '.join(features)}."


def _is_public(error: Exception) -> bool:
    if isinstance(error, OpBoostError):
        return isinstance(error, SetupError) or not isinstance(error, ContractError)
    return isinstance(error, ConnectionError | TimeoutError) or is_disk_full(error)


def _keep_reason(home: Home, reason: str) -> None:
    # A full disk has no space for the reason either.
    with suppress(OSError):
        home.write(REASON, f"{reason}\n".encode())

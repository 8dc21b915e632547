"""Failures that depend on private rows: one public message whatever the cause, the reason at home.

A feature holder's failures tell of its table, and the label holder's, once it has opened rows, of
the people whom all have. That a task failed is seen by everybody; this is all that they see, and
the party's ledger has one entry a run of it, written before it can be told.
"""

import traceback
from contextlib import suppress
from dataclasses import dataclass

from opboost_ops.config.federation import Federation
from opboost_ops.errors import ContractError, OpBoostError, SetupError, is_disk_full
from opboost_ops.exchange.party_state import open_state
from opboost_ops.pipeline.home import Home
from opboost_ops.pipeline.redaction import follows_opening
from opboost_ops.pipeline.stage import Context

#: Where a run's home keeps why it failed, for the party's own people.
REASON = "errors/reason.txt"


@dataclass(frozen=True)
class _Subject:
    """The subject of a stage's failures.

    Attributes:
        name: Of the ledger's entry.
        discloses: What the entry says.
        problem: The public message.
    """

    name: str
    discloses: str
    problem: str


TABLE = _Subject(
    "check_table",
    "whether this run could use the party's table, and if not, in which task it stopped",
    "The table of {} cannot be used in this run.",
)
COMMON_ROWS = _Subject(
    "open_rows",
    "whether this run had enough usable common rows, and if not, in which task it stopped",
    "This run does not have enough usable common rows at {}.",
)


def subject_of(context: Context, stage: str) -> _Subject:
    """Return the subject of a stage's failures.

    Args:
        context: The stage's.
        stage: Its name.
    """
    return COMMON_ROWS if follows_opening(context, stage) else TABLE


def is_private(federation: Federation, party: str, subject: _Subject) -> bool:
    """True if the reason of a party's failure stays at home.

    Before it opens rows, a label holder's failures tell of its own table alone, and it reports
    them; so do parties of horizontal learning.

    Args:
        federation: As declared.
        party: Its name.
        subject: What the failure tells of.
    """
    return subject is COMMON_ROWS or party in federation.feature_holders


def redact_failure(context: Context, stage: str, error: Exception) -> Exception:
    """Replace a failure that depends on private rows by one message, and keep its reason at home.

    Failures by files, keys, clocks, stores, policies, budgets and artifacts of others are public.

    Args:
        context: The stage's.
        stage: Its name.
        error: The failure, which is being handled.

    Returns:
        The same error where it is public; otherwise one in the same words, whatever the reason.
    """
    subject = subject_of(context, stage)
    if not is_private(context.federation, context.party, subject) or _is_public(error):
        return error
    text = str(error) if isinstance(error, OpBoostError) else traceback.format_exc()
    _keep(context.home, f"{stage}: {text}\n{_charged(context)}")
    place = f"{context.federation.name}/{context.run}/{REASON}"
    return ContractError(
        subject.problem.format(context.party),
        f"Its own people find the reason in {place} in its home folder.",
    )


def _charged(context: Context) -> str:
    """The run's charges in the party's ledger, in a sentence."""
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


def _keep(home: Home, reason: str) -> None:
    # On a full disk there is no room for the reason, either.
    with suppress(OSError):
        home.write(REASON, f"{reason}\n".encode())

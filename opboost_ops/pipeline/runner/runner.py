"""The one way to execute: load inputs, run a stage, publish, keep the ledger.

The rules:

1. A stage runs for a run whose plan the party has accepted and admitted; never for a file or form.
2. The stage writes nothing: what it returns goes to the home, to the ledger and to the store, in
   this order.
3. Running it again gives the same bytes, and is charged once.
4. A failure that depends on private rows has one public message; its reason is kept at home. Of
   another foreign exception, whose text may show cells, only its type is told outside.
5. What is returned may be seen by everybody: references and digests, under 2 KB.

In the order of the calls, with every party's site in this process's environment:

>>> opened = open_run(federation_file, run, {"trees": 2})
>>> this = Run("credit_scoring", run, "credit")
>>> summary = run_stage("bank", "check_table", this)
>>> summary = run_stage("bank", "digest_ids", this)
>>> run_stage("bank", "digest_ids", this) == summary  # A retry.
True
>>> run_stage("bank", "seal", this)
Traceback (most recent call last):
    ...
opboost_ops.errors.ContractError: The table of bank cannot be used in this run. Its own ...
>>> run_stage("bank", "train", this)
Traceback (most recent call last):
    ...
opboost_ops.errors.ConfigError: bank (feature_holder) has no stage train in a train run.

A feature holder's failures tell of its table, and the label holder's, once it has opened rows, of
the people whom all have. That a task failed is seen by everybody; this is all that they see, and
the party's ledger has one entry a run of it, written before it can be told.
"""

import contextlib
import logging
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from polars.exceptions import PanicException

from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import site_of
from opboost_ops.errors import (
    BudgetError,
    ConfigError,
    ContractError,
    OpBoostError,
    SetupError,
    is_disk_full,
)
from opboost_ops.exchange.acceptance import Keys
from opboost_ops.exchange.encryption import private_key
from opboost_ops.exchange.party_state import agreements_of, open_state, reuse_open_state
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.rounds.mailbox import Mailbox
from opboost_ops.exchange.signing import Signer
from opboost_ops.exchange.store.store import open_store
from opboost_ops.pipeline import redaction
from opboost_ops.pipeline.catalogue import STAGES
from opboost_ops.pipeline.home import Home
from opboost_ops.pipeline.party import approval, clock, site_faults, trust
from opboost_ops.pipeline.party.admission import require_not_stopped
from opboost_ops.pipeline.party.inbox import (
    Run,
    accept_plan,
    home_of,
    keep,
    note_received,
    note_refused,
)
from opboost_ops.pipeline.phases import stages_of
from opboost_ops.pipeline.protocol import STEPS
from opboost_ops.pipeline.redaction import follows_opening
from opboost_ops.pipeline.runner import facts, progress
from opboost_ops.pipeline.runner.disclosures import announce_step, charge_model
from opboost_ops.pipeline.runner.drawing import RunReleases
from opboost_ops.pipeline.runner.mailboxes import close_mailbox, forget_session, open_mailbox
from opboost_ops.pipeline.runner.publication import Published, Publisher, publish, signer_of
from opboost_ops.pipeline.stage import Context, Outcome

#: Where a run's home keeps why it failed, for the party's own people.
REASON = "errors/reason.txt"

_LOG = logging.getLogger("opboost_ops")


def run_stage(
    party: str,
    stage: str,
    run: Run,
    notice: Callable[[str], None] = lambda _: None,
    fact: facts.Tell | None = None,
) -> dict[str, Any]:
    """Run one stage of one party.

    Args:
        party: Whose.
        stage: Its name.
        run: Of which run.
        notice: Called with what the party's own people should look at; see `Outcome.notices`.
        fact: Called with each of the `facts` of this stage; none are looked up when absent.

    Returns:
        A summary that anybody may see, under 2 KB: references and public counts. What the
        stage took is in the party's home alone, see `timings`.

    Raises:
        OpBoostError: What happened, where, and what to do; it shows no data value.
        ConnectionError: The network or a server failed: trying again may help.
    """
    site, policy = site_of(party)
    failure: OpBoostError | ConnectionError
    try:
        publisher = Publisher(party, site, policy, open_store(site.store))
        return _run_stage(publisher, stage, run, notice, fact)
    except (Rejected, BudgetError) as error:
        failure = error
        note_refused(site, run, stage, error)
    except OpBoostError as error:
        failure = error
    except (ConnectionError, TimeoutError) as error:
        failure = ConnectionError(f"{stage} at {party}: {type(error).__name__}.")
    except Exception as error:
        # The text of a foreign error may print cells; it is kept where only the party reads.
        home = home_of(site, run.federation, run.run)
        file = f"errors/{stage}.txt"
        # On a full disk there is no room for the reason, either.
        with contextlib.suppress(OSError):
            home.write(file, traceback.format_exc().encode())
        failure = (
            ContractError(
                f"{stage} at {party} found no space left on a disk of its own.",
                f"Free some for the home folder of {party}, then clear this task: nothing is lost.",
            )
            if is_disk_full(error)
            else ContractError(
                f"{stage} at {party} failed unexpectedly ({type(error).__name__}).",
                f"The details are in {run.federation}/{run.run}/{file} in the home folder of "
                f"{party}.",
            )
        )
    raise failure


@reuse_open_state()
def _run_stage(
    party: Publisher,
    stage: str,
    run: Run,
    notice: Callable[[str], None],
    fact: facts.Tell | None,
) -> dict[str, Any]:
    acceptance, plan = accept_plan(party, run, stage)
    federation = acceptance.federation
    agreements = agreements_of(party.site)
    party = replace(party, policy=trust.for_run(party.policy, agreements, federation))
    role = federation.parties[party.name].role
    purpose = acceptance.plan.purpose
    stages = stages_of(federation, purpose, party.name)
    if stage not in stages:
        raise ConfigError(f"{party.name} ({role}) has no stage {stage} in a {purpose} run.")
    home = home_of(party.site, run.federation, run.run)
    day = acceptance.day(clock.today())
    approval.require(party, federation, run.run, plan, stages, home, day)
    signer = signer_of(party.site, federation, party.name, day, home)
    declared = federation.parties[party.name].encryption_key
    acceptance.keys = Keys(
        party.site.noise_secret(), private_key(party.site.encryption_key, declared)
    )
    opened: list[Mailbox] = []

    def mailboxes() -> Mailbox:
        private = acceptance.keys.private if acceptance.keys else None
        opened.append(
            open_mailbox(
                party, federation, run.run, plan, signer, private, home, acceptance.heads, day
            )
        )
        return opened[0]

    context = Context(
        federation=federation,
        run=run.run,
        party=party.name,
        site=party.site,
        policy=party.policy,
        home=home,
        store=party.store,
        plan=plan,
        timeout=run.timeout,
        purpose=purpose,
        stages=stages,
        acceptance=acceptance,
        open_mailbox=mailboxes,
        releases=RunReleases(party, federation, run.run, day),
        confirm=partial(approval.confirm, party, federation, run.run, plan),
        tell=(stored := progress.StoredProgress(home, stage)).tell,
    )
    known_before = set(acceptance.memory.accepted)
    begin, processor = time.perf_counter(), facts.processor()
    subject = subject_of(context, stage)
    if stage == subject.name:
        announce_step(party, federation, run.run, stage, "failure")
    failure: Exception | None = None
    try:
        outcome, published, told = _execute(party, context, stage, stored, opened, signer)
    except Exception as error:
        failure = redact_failure(context, stage, error)
        if failure is error:
            raise
    if failure is not None:
        # Nothing of the error that it stands for is attached.
        raise failure
    for mailbox in opened:
        close_mailbox(party, federation, run.run, mailbox, home)
    digests = [artifact.digest for artifact in published]
    note_received(party.site, acceptance, run, known_before)
    for draft, digest in zip(outcome.drafts, digests, strict=True):
        acceptance.published(draft, digest)
    keep(acceptance, context.home)
    ahead = site_faults.ahead(party, federation) if stage == site_faults.STAGE else ()
    for name in (*outcome.notices, *ahead):
        notice(name)
    spent = {"quality_seconds": 0.0, "quality_processor_seconds": 0.0, **outcome.spent}
    seconds = time.perf_counter() - begin - sum(context.waited)
    processor = facts.processor() - processor - sum(context.polled)
    spent |= {
        "seconds": seconds - spent["quality_seconds"],
        "processor_seconds": processor - spent["quality_processor_seconds"],
    }
    facts.note(home, stage, spent)
    if fact is not None:
        facts.tell(fact, party, federation, stage, sum(artifact.size for artifact in published))
    _LOG.info("%s at %s: done", stage, party.name)
    summary = {**outcome.summary, "published": redaction.digests(digests)}
    public = redaction.redact(context, stage, summary, told or outcome.model is not None)
    if public != summary:
        home.write_json(f"{redaction.FOLDER}/{stage}", summary)
    return public


def _execute(
    party: Publisher,
    context: Context,
    stage: str,
    stored: progress.StoredProgress,
    opened: list[Mailbox],
    signer: Signer,
) -> tuple[Outcome, list[Published], bool]:
    """Run a stage, keep what it gives back, publish it, and enter what its summary tells."""
    federation, run = context.federation, context.run
    try:
        with stored:
            outcome = STAGES[stage](context)
    except OpBoostError:
        for mailbox in opened:
            if mailbox.closed:
                forget_session(party, federation, run, mailbox, context.home)
        raise
    except PanicException:
        # No Exception: it would pass every handler, with a text that may show a cell.
        raise RuntimeError(f"a library panicked: {traceback.format_exc()}") from None
    if outcome.model is not None:
        charge_model(party, federation, run, outcome.model)
    for name, table in outcome.tables.items():
        context.home.write_table(name, table)
    for name, value in outcome.documents.items():
        context.home.write_json(name, value)
    for name, value in outcome.lasting.items():
        context.lasting.write_json(name, value)
    for name, content in outcome.files.items():
        context.home.write(name, content)
    # A stop reaches a stage under way, before anything of it leaves.
    require_not_stopped(party, federation, run, context.plan, context.home)
    assert {draft.kind for draft in outcome.drafts} <= {*STEPS[stage].publishes}, stage
    published = publish(party, federation, run, signer, outcome.drafts)
    told = announce_step(party, federation, run, stage, "summary")
    if outcome.failure is not None:
        raise outcome.failure
    return outcome, published, told


@dataclass(frozen=True)
class _Subject:
    """The subject of a stage's failures.

    Attributes:
        name: Of the step whose declaration says what a failure tells.
        problem: The public message.
    """

    name: str
    problem: str


TABLE = _Subject("check_table", "The table of {} cannot be used in this run.")
COMMON_ROWS = _Subject("open_rows", "This run does not have enough usable common rows at {}.")


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
    _keep_reason(context.home, f"{stage}: {text}\n{_charged(context)}")
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


def _keep_reason(home: Home, reason: str) -> None:
    # On a full disk there is no room for the reason, either.
    with suppress(OSError):
        home.write(REASON, f"{reason}\n".encode())

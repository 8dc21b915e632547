"""Execution of stages: load inputs, run the stage, publish its artifacts, keep the ledger.

All stages are executed here, by these rules:

1. A stage runs only for a run whose plan the party has accepted and admitted.
2. A stage returns an outcome, which is written to the home, the ledger and the store here. Stages
   themselves only charge releases, copy their party's table, send messages of rounds, and register
   the models and scores that stay with their party.
3. A retry gives the same bytes, and is charged once.
4. A failure that depends on private rows has one public message; its reason stays at home. Other
   libraries' exceptions, whose texts may contain cells, are reported by their type only.
5. The returned summary is public: references and digests, under 2 KB.

The order of calls, with every party's site in this process's environment:

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

A feature holder's failures depend on its table, and the label holder's, once it has opened rows, on
the people common to all. Everyone sees that a task failed, and nothing more; the party's ledger has
one entry per run for this disclosure, written before it can happen.
"""

import contextlib
import logging
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from polars.exceptions import PanicException

from opboost_ops.config.loading import site_of
from opboost_ops.errors import (
    BudgetError,
    ConfigError,
    ContractError,
    OpBoostError,
    is_disk_full,
)
from opboost_ops.exchange.acceptance import Keys
from opboost_ops.exchange.encryption import private_key
from opboost_ops.exchange.party_state import agreements_of, reuse_open_state
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.rounds.mailbox import Mailbox
from opboost_ops.exchange.signing import Signer
from opboost_ops.exchange.store.store import open_store
from opboost_ops.pipeline import redaction
from opboost_ops.pipeline.catalogue import STAGES
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
from opboost_ops.pipeline.party.local_party import LocalParty
from opboost_ops.pipeline.phases import stages_of
from opboost_ops.pipeline.protocol import STEPS
from opboost_ops.pipeline.runner import facts, progress
from opboost_ops.pipeline.runner.disclosures import announce_step, charge_model
from opboost_ops.pipeline.runner.mailboxes import close_mailbox, forget_session, open_mailbox
from opboost_ops.pipeline.runner.publication import Published, publish, signer_of
from opboost_ops.pipeline.runner.run_releases import RunReleases
from opboost_ops.pipeline.stage import Context, Outcome
from opboost_ops.pipeline.steps.checks import CHECKED

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
        party: The party.
        stage: Name of the stage.
        run: The run.
        notice: Called with notices for the party's own people; see `Outcome.notices`.
        fact: Called with each of the stage's `facts`; if None, they are not computed.

    Returns:
        A public summary under 2 KB: references and public counts. The stage's times are only in
        the party's home, see `facts.TIMINGS`.

    Raises:
        OpBoostError: The stage failed; the message contains no data value.
        ConnectionError: The network or a server failed; a retry may help.
    """
    site, policy = site_of(party)
    failure: OpBoostError | ConnectionError
    try:
        local = LocalParty(party, site, policy, open_store(site.store))
        return _run_stage(local, stage, run, notice, fact)
    except (Rejected, BudgetError) as error:
        failure = error
        note_refused(site, run, stage, error)
    except OpBoostError as error:
        failure = error
    except (ConnectionError, TimeoutError) as error:
        failure = ConnectionError(f"{stage} at {party}: {type(error).__name__}.")
    except Exception as error:
        # The text of another library's error may contain cells: only the party may read it.
        home = home_of(site, run.federation, run.run)
        file = f"errors/{stage}.txt"
        # A full disk has no space for the reason either.
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
    party: LocalParty,
    stage: str,
    run: Run,
    notice: Callable[[str], None],
    fact: facts.Tell | None,
) -> dict[str, Any]:
    work = _prepare(party, stage, run)
    party, context = work.party, work.context
    known_before = set(context.acceptance.memory.accepted)
    begin, processor = time.perf_counter(), facts.processor()
    outcome, published = _execute_redacted(work)
    _commit(work, outcome, published, known_before)
    ahead = site_faults.ahead(party, context.federation) if stage == site_faults.STAGE else ()
    for name in (*outcome.notices, *ahead):
        notice(name)
    spent = {"quality_seconds": 0.0, "quality_processor_seconds": 0.0, **outcome.spent}
    seconds = time.perf_counter() - begin - sum(context.waited)
    processor = facts.processor() - processor - sum(context.polled)
    spent |= {
        "seconds": seconds - spent["quality_seconds"],
        "processor_seconds": processor - spent["quality_processor_seconds"],
    }
    facts.note(context.home, stage, spent)
    if fact is not None:
        size = sum(artifact.size for artifact in published)
        facts.tell(fact, party, context.federation, stage, size)
    _LOG.info("%s at %s: done", stage, party.name)
    return _public_summary(context, stage, outcome, published)


@dataclass(frozen=True)
class _Work:
    """A stage of an accepted run, with everything that the stage may use.

    Attributes:
        party: The party, with the policy of the run.
        stage: Name of the stage.
        run: The run.
        context: The stage's input.
        signer: The party's signing key.
        opened: Mailboxes that the stage has opened.
        progress: Stores the stage's progress.
    """

    party: LocalParty
    stage: str
    run: Run
    context: Context
    signer: Signer
    opened: list[Mailbox]
    progress: progress.StoredProgress


def _prepare(party: LocalParty, stage: str, run: Run) -> _Work:
    """Accept the run's plan, and build the stage's context."""
    acceptance, plan = accept_plan(party, run, stage)
    federation, purpose = acceptance.federation, acceptance.plan.purpose
    policy = trust.for_run(party.policy, agreements_of(party.site), federation)
    party = replace(party, policy=policy)
    declared = federation.parties[party.name]
    stages = stages_of(federation, purpose, party.name)
    if stage not in stages:
        raise ConfigError(
            f"{party.name} ({declared.role}) has no stage {stage} in a {purpose} run."
        )
    home = home_of(party.site, run.federation, run.run)
    day = acceptance.day(clock.today())
    approval.require(party, federation, run.run, plan, stages, home, day)
    signer = signer_of(party.site, federation, party.name, day, home)
    private = private_key(party.site.encryption_key, declared.encryption_key)
    acceptance.keys = Keys(party.site.read_secret(), private)
    opened: list[Mailbox] = []

    def mailboxes() -> Mailbox:
        about = (party, federation, run.run, plan, signer, private, home)
        opened.append(open_mailbox(*about, acceptance.keep_checkpoint, day))
        return opened[0]

    stored = progress.StoredProgress(home, stage)
    context = Context(
        federation=federation,
        run=run.run,
        party=party.name,
        site=party.site,
        policy=policy,
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
        tell=stored.tell,
    )
    return _Work(party, stage, run, context, signer, opened, stored)


def _execute_redacted(work: _Work) -> tuple[Outcome, list[Published]]:
    stage, context = work.stage, work.context
    announce_step(work.party, context.federation, context.run, stage, "failure")
    try:
        return _execute(work)
    except PanicException:
        # Not an Exception: it would pass every handler, with a text that may contain a cell.
        panic = RuntimeError(f"a library panicked: {traceback.format_exc()}")
        failure = redaction.redact_failure(context, stage, panic)
    except Exception as error:
        failure = redaction.redact_failure(context, stage, error)
        if failure is error:
            raise
    # Without the original error as context or cause.
    raise failure


def _execute(work: _Work) -> tuple[Outcome, list[Published]]:
    """Run a stage, store its outcome, publish its drafts, and enter the summary's disclosures."""
    party, stage, context = work.party, work.stage, work.context
    federation, run = context.federation, context.run
    if stage != "check_table" and "check_table" in context.stages:
        context.require_passed(CHECKED)
    context.forget_verdicts(stage)
    try:
        with work.progress:
            outcome = STAGES[stage](context)
    except OpBoostError:
        for mailbox in work.opened:
            if mailbox.closed:
                forget_session(party, federation, run, mailbox, context.home)
        raise
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
    # A stop takes effect in running stages, before anything of theirs is published.
    require_not_stopped(party, federation, run, context.plan, context.home)
    assert {draft.kind for draft in outcome.drafts} <= {*STEPS[stage].publishes}, stage
    published = publish(party, federation, run, work.signer, outcome.drafts)
    announce_step(party, federation, run, stage, "summary")
    if outcome.failure is not None:
        raise outcome.failure
    return outcome, published


def _commit(
    work: _Work, outcome: Outcome, published: Sequence[Published], known_before: set[str]
) -> None:
    """Record received and published artifacts in the party's memory and audit log."""
    party, context, acceptance = work.party, work.context, work.context.acceptance
    for mailbox in work.opened:
        close_mailbox(party, context.federation, context.run, mailbox, context.home)
    note_received(party.site, acceptance, work.run, known_before)
    for draft, artifact in zip(outcome.drafts, published, strict=True):
        acceptance.published(draft, artifact.digest)
    keep(acceptance, context.home)


def _public_summary(
    context: Context, stage: str, outcome: Outcome, published: Sequence[Published]
) -> dict[str, Any]:
    digests = redaction.digests([artifact.digest for artifact in published])
    summary = {**outcome.summary, "published": digests}
    entries = STEPS[stage].disclosures(context.federation, context.party, "summary")
    public = redaction.redact(context, stage, summary, bool(entries))
    if public != summary:
        context.home.write_json(f"{redaction.FOLDER}/{stage}", summary)
    return public

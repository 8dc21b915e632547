"""Functions of Airflow's tasks. Heavy modules are imported only when a task runs."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowSkipException

from opboost_ops.config.federation import Purpose
from opboost_ops.errors import (
    ApprovalError,
    BudgetError,
    ConfigError,
    OpBoostError,
    PolicyError,
    is_network_error,
)
from opboost_ops.exchange import manifest
from opboost_ops.orchestration.dags import notifications, run_notes
from opboost_ops.orchestration.dags.operators import NotReady
from opboost_ops.orchestration.dags.run_notes import (
    XCOM_LIMIT,
    BudgetRefusedError,
    TaskFailedError,
    log_failure,
)
from opboost_ops.orchestration.dags.times import LATE, missed, type_of
from opboost_ops.orchestration.deployment import capacity, metrics
from opboost_ops.orchestration.deployment.capacity import form_of
from opboost_ops.orchestration.settings import use_airflow_secrets

#: Seconds between two polls for a person's approval.
_APPROVAL_POLL = 30.0


@log_failure
def open_run(
    federation_file: str, purpose: Purpose, form: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Open a run: publish its signed plan.

    Args:
        federation_file: Path of ``federation.yaml`` on the label holder's worker.
        purpose: ``train`` or ``score``.
        form: Replaces the trigger form, in a handwritten DAG; the DAG's parameters and its run's
            configuration are then not read.
    """
    context = get_current_context()
    dag_run = context["dag_run"]

    def work() -> Mapping[str, Any]:
        # The author of a handwritten DAG decides when it runs.
        if form is None and (late := missed(dag_run)):
            notifications.notice(context, "schedule_missed")
            return {"skip": late}
        from opboost_ops.pipeline.party import form_values
        from opboost_ops.pipeline.runner import opening

        if manifest.joined_run(dag_run.run_id):
            raise ConfigError(
                f"The run id {dag_run.run_id} names a run of another Airflow, and this task opens "
                "runs.",
                "Trigger the DAG without choosing a run id.",
            )
        run = manifest.own_run_id(dag_run.dag_id, dag_run.run_id)
        if form is None:
            values = {name: context["params"].get(name) for name in form_values.FORM[purpose]}
        else:
            # Templates render a missing value as "None" and numbers as text. `form_values` parses
            # each field: the digits of a version may look like a number.
            values = {name: None if value == "None" else value for name, value in form.items()}
        fields = {name: value for name, value in values.items() if value not in (None, "")}
        if form is None:
            # Airflow's params drop unknown fields; a misspelt field must not run as declared.
            fields |= form_of(dag_run.conf)
        faults = capacity.faults(context["ti"])
        return opening.open_run(Path(federation_file), run, fields, purpose, faults)

    return execute("open_run", work)


@log_failure
def run_stages(
    party: str, stages: Sequence[str], federation: str, label_holder: str
) -> dict[str, Any]:
    """Run stages of one party in order, up to the first that fails.

    Each stage but the last pushes its summary to XCom under its own name. A retried or cleared task
    starts with its first stage: repeated work gives the same bytes, and is charged once.

    Args:
        party: Name of the party.
        stages: Names of the stages, in order.
        federation: Name of the federation.
        label_holder: The party that opened the run.

    Returns:
        The last stage's summary, which is the task's result.
    """
    from opboost_ops.exchange.party_state import reuse_open_state

    ti = get_current_context()["ti"]
    with reuse_open_state():
        for stage in stages[:-1]:
            ti.xcom_push(stage, _run_stage(party, stage, federation, label_holder))
        return _run_stage(party, stages[-1], federation, label_holder)


def _run_stage(party: str, stage: str, federation: str, label_holder: str) -> dict[str, Any]:
    context = get_current_context()
    dag_run = context["dag_run"]
    meter = metrics.meter(federation, party, stage)
    this = manifest.run_id(dag_run.dag_id, dag_run.run_id)

    def work() -> Mapping[str, Any]:
        from opboost_ops.pipeline.party.inbox import Run
        from opboost_ops.pipeline.runner import runner

        run = Run(federation, this, label_holder)
        fact = None if meter is None else meter.fact
        # Sent by the party's own worker to its own notifiers; no summary contains it.
        notice = partial(notifications.notice, context, stage=stage)
        return runner.run_stage(party, stage, run, notice, fact)

    approval = {"party": party, "federation": federation, "run": this}
    summary = execute(f"{stage} at {party}", work, meter, stage, approval)
    if stage == "register":
        notifications.registered(context, summary)
    return summary


@log_failure
def check_table(party: str, federation: str, purpose: Purpose) -> dict[str, Any]:
    """Succeed, and thereby emit the table's asset, only if a party's table has changed.

    Args:
        party: Name of the party.
        federation: Name of the federation.
        purpose: ``train`` for the training table, ``score`` for that of new rows.
    """
    dag_run = get_current_context()["dag_run"]

    def work() -> Mapping[str, Any]:
        from opboost_ops.pipeline.party import own_table

        if late := missed(dag_run):
            return {"skip": late}
        if own_table.changed(party, federation, dag_run.run_id, purpose):
            return {"changed": True}
        return {"skip": f"the table of {party} is unchanged, or there is none"}

    return execute(f"check_table at {party}", work)


@log_failure
def act(party: str, federation: str) -> dict[str, Any]:
    """Perform an admin action at a party: promote, roll back, stop or resume.

    Args:
        party: Name of the party.
        federation: Name of the federation.
    """
    context = get_current_context()
    dag_run = context["dag_run"]

    def work() -> Mapping[str, Any]:
        from opboost_ops.pipeline.party import admin_actions

        # Airflow's params drop unknown fields, such as a misspelt one; the configuration has all.
        form = form_of({**context["params"], **(dag_run.conf or {})})
        if form.pop("party", None) != party:
            return {"skip": "no action is requested of this party"}
        # Only a manual run has the name of the person who requested it: a task that triggers a DAG
        # does so in the name of the user who triggered its own DAG.
        if type_of(dag_run) != "manual":
            raise ConfigError(
                f"Run {dag_run.run_id} was not triggered by a person, and only a person may "
                "request an action.",
                "Trigger this DAG in Airflow's UI, or by its REST API.",
            )
        # A cleared run acts in the name of the person who triggered it, so old requests expire.
        if datetime.now(UTC) - dag_run.run_after > LATE:
            raise ConfigError(
                f"Run {dag_run.run_id} was triggered more than an hour ago; its request has "
                "expired.",
                "Trigger a new run.",
            )
        # The run id may be chosen by anyone who triggers a run: never take another run's.
        this = manifest.own_run_id(dag_run.dag_id, dag_run.run_id)
        who = getattr(dag_run, "triggering_user_name", None)
        summary = admin_actions.from_airflow(party, federation, this, who, form)
        if "skip" not in summary:
            notifications.acted(context, summary)
        return summary

    return execute(f"admin action at {party}", work)


@log_failure
def invalid(problem: str) -> None:
    """Fail with the faults of a federation file."""
    raise TaskFailedError(problem)


def execute(
    what: str,
    work: Callable[[], Mapping[str, Any]],
    meter: metrics.Meter | None = None,
    stage: str = "",
    approval: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Run a task's work, and replace any exception by one without data or foreign text.

    Args:
        what: Name of the work, for messages.
        work: Returns a summary that everyone may see.
        meter: Receives the outcome.
        stage: The stage of the task that runs; named in its failure.
        approval: Party, federation and run of an approval that the work may await.

    Returns:
        The summary, at most `XCOM_LIMIT` bytes as JSON.

    Raises:
        NotReady: The work awaits a person's approval.
        AirflowSkipException: There was nothing to do; the summary's ``skip`` says why.
        NetworkError: The network failed; Airflow retries.
        BudgetRefusedError: A party's budget does not allow the release; Airflow does not retry.
        AirflowFailException: Any other failure; Airflow does not retry.
    """
    failure: Exception
    outcome: metrics.Outcome = "failed"
    try:
        use_airflow_secrets()
        # Reports an invalid setting now, not at the first failure, whose alarm it would suppress.
        notifications.notifiers()
        metrics.wanted()
        summary = dict(work())
        if "skip" in summary:
            # A skipped task emits no asset, and its downstream tasks are skipped as well.
            raise AirflowSkipException(f"{what}: {summary['skip']}.")
        size = len(json.dumps(summary).encode())
        if size <= XCOM_LIMIT:
            if meter is not None:
                meter.ended("done")
            return summary
        failure = TaskFailedError(
            f"{what}: the summary has {size} bytes, more than the limit of {XCOM_LIMIT}.", "", stage
        )
    except AirflowSkipException as skip:
        failure, outcome = skip, "skipped"
    except ApprovalError as error:
        _notify_party(error, stage)
        failure = NotReady("answer", approval or {}, _APPROVAL_POLL)
        meter = None
    except BudgetError as error:
        failure, outcome = BudgetRefusedError(*error.outside, stage), "refused"
    except OpBoostError as error:
        _notify_party(error, stage)
        failure = TaskFailedError(error.problem, error.remedy, stage)
        if meter is not None and _is_rejection(error):
            meter.refused()
    except Exception as error:
        name = type(error).__name__
        if is_network_error(error):
            text = f"{what}: the network failed ({name}). Airflow will retry."
            failure = run_notes.NetworkError(text, stage)
            outcome = "again"
        else:
            failure = TaskFailedError(f"{what}: failed unexpectedly ({name}).", "", stage)
    if meter is not None:
        meter.ended(outcome)
    # Outside the except block, so that no foreign exception, whose text may contain cells, is
    # chained to it.
    raise failure


def _is_rejection(error: OpBoostError) -> bool:
    """True if the party rejected another party's artifact."""
    from opboost_ops.exchange.rejection import Rejected

    return isinstance(error, Rejected)


def _notify_party(error: OpBoostError, stage: str) -> None:
    if isinstance(error, PolicyError) and error.notice:
        notifications.notice(get_current_context(), error.notice, stage)

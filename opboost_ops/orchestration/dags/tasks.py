"""The code of Airflow's tasks. Nothing heavy is imported before a task runs."""

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
from opboost_ops.orchestration.dags.operators import StillWaiting
from opboost_ops.orchestration.dags.run_notes import XCOM_LIMIT, Failed, RefusedBudget, plainly
from opboost_ops.orchestration.dags.times import LATE, missed, type_of
from opboost_ops.orchestration.deployment import capacity, metrics
from opboost_ops.orchestration.deployment.capacity import form_of
from opboost_ops.orchestration.settings import use_airflow_secrets

#: Seconds between two looks for a person's answer.
_AGAIN = 30.0


@plainly
def open_run(
    federation_file: str, purpose: Purpose, form: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Publish the run's plan.

    Args:
        federation_file: ``federation.yaml``, as the label holder's worker finds it.
        purpose: What the run is for.
        form: What stands for the trigger form, in a DAG that is not the federation's own; its
            parameters and its run's configuration are then not read.
    """
    context = get_current_context()
    dag_run = context["dag_run"]

    def work() -> Mapping[str, Any]:
        # When a DAG of one's own runs, and for which times, is its own affair.
        if form is None and (late := missed(dag_run)):
            notifications.notice(context, "schedule_missed")
            return {"skip": late}
        from opboost_ops.pipeline.party import form_values
        from opboost_ops.pipeline.runner import opening

        if manifest.joined_run(dag_run.run_id):
            raise ConfigError(
                f"The run id {dag_run.run_id} names a run of another Airflow, and this task opens "
                "runs.",
                "Trigger the DAG without a run id of your own.",
            )
        run = manifest.own_run_id(dag_run.dag_id, dag_run.run_id)
        if form is None:
            values = {name: context["params"].get(name) for name in form_values.FORM[purpose]}
        else:
            # Templates make a word of what is absent, and texts of numbers, which `form_values`
            # reads field by field: a version's digits may look like a number.
            values = {name: None if value == "None" else value for name, value in form.items()}
        fields = {name: value for name, value in values.items() if value not in (None, "")}
        if form is None:
            # Airflow drops what its form does not know; a misspelt field must not run as declared.
            fields |= form_of(dag_run.conf)
        faults = capacity.faults(context["ti"])
        return opening.open_run(Path(federation_file), run, fields, purpose, faults)

    return execute("open_run", work)


@plainly
def run_stages(
    party: str, stages: Sequence[str], federation: str, label_holder: str
) -> dict[str, Any]:
    """Run stages of one party, one after the other, up to the first that fails.

    Each stage before the last leaves its summary in XCom under its own name. Tried again, or
    cleared, the task begins with its first stage: what was done already gives the same bytes, and
    is charged once.

    Args:
        party: Whose.
        stages: Their names, in order.
        federation: Name of the federation.
        label_holder: Who opened the run.

    Returns:
        The last stage's summary, the task's result.
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
        # Told by the party's own worker to its own notifiers; no summary has it.
        notice = partial(notifications.notice, context, stage=stage)
        return runner.run_stage(party, stage, run, notice, fact)

    question = {"party": party, "federation": federation, "run": this}
    summary = execute(f"{stage} at {party}", work, meter, stage, question)
    if stage == "register":
        notifications.registered(context, summary)
    return summary


@plainly
def look_at_table(party: str, federation: str, purpose: Purpose) -> dict[str, Any]:
    """Succeed, and so emit the table's asset, only if a party's table has changed.

    Args:
        party: Whose.
        federation: Name of the federation.
        purpose: The training table, or that of new rows.
    """
    dag_run = get_current_context()["dag_run"]

    def work() -> Mapping[str, Any]:
        from opboost_ops.pipeline.party import own_table

        if late := missed(dag_run):
            return {"skip": late}
        if own_table.changed(party, federation, dag_run.run_id, purpose):
            return {"changed": True}
        return {"skip": f"the table of {party} is as it was, or there is none"}

    return execute(f"look_at_table at {party}", work)


@plainly
def act(party: str, federation: str) -> dict[str, Any]:
    """Do what a person asks of a party: promote, roll back, stop taking part.

    Args:
        party: Whose.
        federation: Name of the federation.
    """
    context = get_current_context()
    dag_run = context["dag_run"]

    def work() -> Mapping[str, Any]:
        from opboost_ops.pipeline.party import admin_actions

        # Airflow drops what its form does not know, such as a misspelt field.
        form = form_of({**context["params"], **(dag_run.conf or {})})
        if form.pop("party", None) != party:
            return {"skip": "nothing is asked of this party"}
        # A task that starts a DAG does so in the name of whoever started its own.
        if type_of(dag_run) != "manual":
            raise ConfigError(
                f"Run {dag_run.run_id} was started by another DAG, and only a person acts.",
                "Trigger this DAG in Airflow's UI, or by its REST API.",
            )
        # Whoever clears it acts in the name of the person who wanted it then.
        if datetime.now(UTC) - dag_run.run_after > LATE:
            raise ConfigError(
                f"Run {dag_run.run_id} requests what was wanted more than an hour ago.",
                "Trigger a new run.",
            )
        # Never another run's: anyone who triggers a run may choose its id.
        this = manifest.own_run_id(dag_run.dag_id, dag_run.run_id)
        who = getattr(dag_run, "triggering_user_name", None)
        done = admin_actions.from_airflow(party, federation, this, who, form)
        if "skip" not in done:
            notifications.acted(context, done)
        return done

    return execute(f"what is asked of {party}", work)


@plainly
def invalid(problem: str) -> None:
    """Fail with what is wrong in a federation file.

    Args:
        problem: All its faults.
    """
    raise Failed(problem)


def execute(
    what: str,
    work: Callable[[], Mapping[str, Any]],
    meter: metrics.Meter | None = None,
    stage: str = "",
    question: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Do a task's work; a failure has a message of ours and nothing of the foreign one.

    Args:
        what: The work's name, for messages.
        work: Returns a summary that anybody may see.
        meter: Tells how it has ended; nobody is told when absent.
        stage: Which stage of its task it is; its failure names it.
        question: Party, federation and run of which a person may be asked.

    Returns:
        The summary, at most `XCOM_LIMIT` bytes as JSON.

    Raises:
        StillWaiting: It waits for a person's answer.
        AirflowSkipException: There was nothing to do; the summary's ``skip`` says why.
        NetworkError: The network failed; Airflow tries again.
        RefusedBudget: A party's budget refuses; Airflow does not try again.
        AirflowFailException: Anything else; Airflow does not try again.
    """
    failure: Exception
    outcome: metrics.Outcome = "failed"
    try:
        use_airflow_secrets()
        # A wrong value must be noticed while all is well, not by the first alarm that stays away.
        notifications.notifiers()
        metrics.wanted()
        summary = dict(work())
        if "skip" in summary:
            # A skipped task emits no asset, and what comes after it is skipped, too.
            raise AirflowSkipException(f"{what}: {summary['skip']}.")
        size = len(json.dumps(summary).encode())
        if size <= XCOM_LIMIT:
            if meter is not None:
                meter.ended("done")
            return summary
        failure = Failed(f"{what}: the summary has {size} bytes, over {XCOM_LIMIT}.", "", stage)
    except AirflowSkipException as nothing:
        failure, outcome = nothing, "skipped"
    except ApprovalError as waits:
        _told_at_home(waits, stage)
        failure = StillWaiting("answer", question or {}, _AGAIN)
        meter = None
    except BudgetError as error:
        failure, outcome = RefusedBudget(*error.outside, stage), "refused"
    except OpBoostError as error:
        _told_at_home(error, stage)
        failure = Failed(error.problem, error.remedy, stage)
        if meter is not None and _of_another(error):
            meter.refused()
    except Exception as error:
        name = type(error).__name__
        if is_network_error(error):
            words = f"{what}: the network failed ({name}). It is tried again."
            failure = run_notes.NetworkError(words, stage)
            outcome = "again"
        else:
            failure = Failed(f"{what}: failed unexpectedly ({name}).", "", stage)
    if meter is not None:
        meter.ended(outcome)
    # Outside the except block, so that no foreign exception, whose text may show cells, hangs on.
    raise failure


def _of_another(error: OpBoostError) -> bool:
    """True if the acceptance of another party's artifact failed."""
    from opboost_ops.exchange.rejection import Rejected

    return isinstance(error, Rejected)


def _told_at_home(error: OpBoostError, stage: str) -> None:
    if isinstance(error, PolicyError) and error.notice:
        notifications.notice(get_current_context(), error.notice, stage)

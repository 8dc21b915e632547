"""What runs inside an Airflow task. Nothing heavy is imported before a task runs."""

import errno
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from opboost_ops.config.federation import Purpose
from opboost_ops.errors import BudgetError, OpBoostError
from opboost_ops.orchestration import notifications
from opboost_ops.orchestration.pools import asked_for, missing_pools, too_few_slots

#: Most bytes that a task may leave in XCom.
XCOM_LIMIT = 2048

#: Key of a summary that is not what its task returns.
SUMMARY = "summary"

_NETWORK = {
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.ENETRESET,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.ETIMEDOUT,
}


def open_run(federation_file: str, purpose: Purpose) -> dict[str, Any]:
    """Publish the run's plan.

    Args:
        federation_file: ``federation.yaml``, as the label holder's worker finds it.
        purpose: What the run is for.
    """
    context = get_current_context()
    dag_run = context["dag_run"]
    require_slots(dag_run.conf)

    def work() -> Mapping[str, Any]:
        from opboost_ops.exchange.run_id import run_id
        from opboost_ops.run import opening

        run = run_id(dag_run.dag_id, dag_run.run_id)
        params = {name: context["params"].get(name) for name in opening.FORM[purpose]}
        # Airflow drops what its form does not know; a misspelt field must not run as declared.
        form = {name: value for name, value in params.items() if value not in (None, "")}
        form |= asked_for(dag_run.conf)
        return opening.open_run(Path(federation_file), run, form, purpose)

    return execute("open_run", work)


def require_slots(conf: Mapping[str, Any] | None) -> None:
    """Fail if the run's pools do not exist, or have too few slots.

    Args:
        conf: The run's configuration.

    Raises:
        AirflowFailException: They do not.
    """
    missing = missing_pools(conf)
    if missing:
        raise AirflowFailException(
            f"The federation file names pools that do not exist: {', '.join(missing)}. Create them "
            "(`airflow pools set NAME SLOTS DESCRIPTION`, or Admin > Pools), or correct the file, "
            "and run again."
        )
    short = too_few_slots(conf)
    if short:
        raise AirflowFailException(
            f"All parties train at the same time, and there are too few slots: {'; '.join(short)}. "
            "Give more, and run again."
        )


def run_stage(
    party: str, stage: str, federation: str, label_holder: str, shard: int | None = None
) -> dict[str, Any]:
    """Run one stage of one party.

    Args:
        party: Whose.
        stage: Its name.
        federation: Name of the federation.
        label_holder: Who opened the run.
        shard: For which file of its table; for all when absent.
    """
    context = get_current_context()
    dag_run = context["dag_run"]

    def work() -> Mapping[str, Any]:
        from opboost_ops.exchange.run_id import run_id
        from opboost_ops.run import runner
        from opboost_ops.run.inbox import Run

        run = Run(federation, run_id(dag_run.dag_id, dag_run.run_id), label_holder)
        # Told by the party's own worker to its own notifiers; no summary has it.
        notice = partial(notifications.notice, context)
        return runner.run_stage(party, stage, run, shard, notice)

    return execute(f"{stage} at {party}", work)


def list_shards(party: str, federation: str, label_holder: str) -> list[int]:
    """Count the files of a party's table.

    Args:
        party: Whose.
        federation: Name of the federation.
        label_holder: Who opened the run.

    Returns:
        Their numbers: Airflow maps tasks over what a task returns and over no other XCom, so that
        here the summary is the one under another key, `SUMMARY`.
    """
    summary = run_stage(party, "list_shards", federation, label_holder)
    get_current_context()["ti"].xcom_push(SUMMARY, summary)
    return list(range(summary["shards"]))


def look_at_table(party: str, federation: str, purpose: Purpose) -> dict[str, Any]:
    """Succeed, and so emit the table's asset, only if a party's table has changed.

    Args:
        party: Whose.
        federation: Name of the federation.
        purpose: The training table, or that of new rows.
    """
    dag_run = get_current_context()["dag_run"]

    def work() -> Mapping[str, Any]:
        from opboost_ops.run import table_watch

        if table_watch.changed(party, federation, dag_run.run_id, purpose):
            return {"changed": True}
        return {"skip": f"the table of {party} is as it was, or there is none"}

    return execute(f"look_at_table at {party}", work)


def invalid(problem: str) -> None:
    """Fail with what is wrong in a federation file.

    Args:
        problem: All its faults.
    """
    raise AirflowFailException(problem)


def execute(what: str, work: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """Do a task's work; a failure has a message of ours and nothing of the foreign one.

    Args:
        what: The work's name, for messages.
        work: Returns a summary that anybody may see.

    Returns:
        The summary, at most `XCOM_LIMIT` bytes as JSON.

    Raises:
        AirflowSkipException: There was nothing to do; the summary's ``skip`` says why.
        ConnectionError: The network failed; Airflow tries again.
        RefusedBudget: A party's budget refuses; Airflow does not try again.
        AirflowFailException: Anything else; Airflow does not try again.
    """
    failure: Exception
    try:
        # A wrong value must be noticed while all is well, not by the first alarm that stays away.
        notifications.notifiers()
        summary = dict(work())
        if "skip" in summary:
            # A skipped task emits no asset, and what comes after it is skipped, too.
            raise AirflowSkipException(f"{what}: {summary['skip']}.")
        size = len(json.dumps(summary).encode())
        if size <= XCOM_LIMIT:
            return summary
        failure = AirflowFailException(f"{what}: the summary has {size} bytes, over {XCOM_LIMIT}.")
    except AirflowSkipException as nothing:
        failure = nothing
    except BudgetError as error:
        failure = notifications.RefusedBudget(str(error))
    except OpBoostError as error:
        failure = AirflowFailException(str(error))
    except Exception as error:
        name = type(error).__name__
        if _of_the_network(error):
            failure = ConnectionError(f"{what}: the network failed ({name}). It is tried again.")
        else:
            failure = AirflowFailException(f"{what}: failed unexpectedly ({name}).")
    # Outside the except block, so that no foreign exception, whose text may show cells, hangs on.
    raise failure


def _of_the_network(error: Exception) -> bool:
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    return isinstance(error, OSError) and error.errno in _NETWORK

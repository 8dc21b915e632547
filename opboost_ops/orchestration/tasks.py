"""What runs inside an Airflow task. Nothing heavy is imported before a task runs."""

import errno
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from opboost_ops.errors import BudgetError, OpBoostError
from opboost_ops.orchestration import notifications
from opboost_ops.orchestration.pools import missing_pools

#: Most bytes that a task may leave in XCom.
XCOM_LIMIT = 2048

_NETWORK = {
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.ENETRESET,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.ETIMEDOUT,
}


def open_run(federation_file: str) -> dict[str, Any]:
    """Publish the run's plan.

    Args:
        federation_file: ``federation.yaml``, as the label holder's worker finds it.
    """
    context = get_current_context()
    dag_run = context["dag_run"]
    missing = missing_pools(dag_run.conf)
    if missing:
        raise AirflowFailException(
            f"The federation file names pools that do not exist: {', '.join(missing)}. Create them "
            "(`airflow pools set NAME SLOTS DESCRIPTION`, or Admin > Pools), or correct the file, "
            "and run again."
        )

    def work() -> Mapping[str, Any]:
        from opboost_ops import runner

        run = runner.run_id(dag_run.dag_id, dag_run.run_id)
        form = {name: context["params"].get(name) for name in runner.FORM}
        return runner.open_run(Path(federation_file), run, form)

    return execute("open_run", work)


def run_stage(party: str, stage: str, federation: str, label_holder: str) -> dict[str, Any]:
    """Run one stage of one party.

    Args:
        party: Whose.
        stage: Its name.
        federation: Name of the federation.
        label_holder: Who opened the run.
    """
    dag_run = get_current_context()["dag_run"]

    def work() -> Mapping[str, Any]:
        from opboost_ops import runner

        run = runner.Run(federation, runner.run_id(dag_run.dag_id, dag_run.run_id), label_holder)
        return runner.run_stage(party, stage, run)

    return execute(f"{stage} at {party}", work)


def look_at_table(party: str, federation: str) -> dict[str, Any]:
    """Succeed, and so emit the table's asset, only if a party's table has changed.

    Args:
        party: Whose.
        federation: Name of the federation.
    """
    dag_run = get_current_context()["dag_run"]

    def work() -> Mapping[str, Any]:
        from opboost_ops import table_watch

        return {"changed": table_watch.changed(party, federation, dag_run.run_id)}

    summary = execute(f"look_at_table at {party}", work)
    if not summary["changed"]:
        raise AirflowSkipException(f"The table of {party} is as it was.")
    return summary


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
        ConnectionError: The network failed; Airflow tries again.
        RefusedBudget: A party's budget refuses; Airflow does not try again.
        AirflowFailException: Anything else; Airflow does not try again.
    """
    failure: Exception
    try:
        # A wrong value must be noticed while all is well, not by the first alarm that stays away.
        notifications.notifiers()
        summary = dict(work())
        size = len(json.dumps(summary).encode())
        if size <= XCOM_LIMIT:
            return summary
        failure = AirflowFailException(f"{what}: the summary has {size} bytes, over {XCOM_LIMIT}.")
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

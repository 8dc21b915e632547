"""Operators of a federation's DAGs: party tasks, links to their pages, and deferred waits."""

import logging
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode, urlsplit

from airflow.configuration import conf
from airflow.sdk import BaseOperator, BaseOperatorLink, Context
from airflow.sdk.exceptions import AirflowRescheduleException

from opboost_ops.orchestration.dags.triggers import LIFETIME, WOKEN, StoreTrigger

_LOG = logging.getLogger("opboost_ops")

#: Where the pages are mounted in Airflow's API server.
PREFIX = "opboost"

#: If a trigger does not answer within this time, no triggerer has taken it.
_TRIGGER_TIMEOUT = LIFETIME + timedelta(minutes=2)

#: Airflow's method name for resuming a task whose trigger failed or timed out.
_TRIGGER_FAILED = "__fail__"

_WOKEN_EARLY = (
    "Its triggerer resumed it with nothing to do. Configure the triggerer with the site, "
    "environment and release of this party's workers."
)


class NotReady(Exception):  # noqa: N818 - not an error: it ends a poll
    """A task's input is not ready, so the task releases its slot.

    Args:
        condition: Name of the awaited condition in `sensors.CONDITIONS`.
        arguments: The condition's arguments.
        seconds: Seconds until the next poll, if no triggerer polls for the task.
    """

    def __init__(self, condition: str, arguments: Mapping[str, Any], seconds: float) -> None:
        self.condition = condition
        self.arguments = dict(arguments)
        self.seconds = seconds
        super().__init__(condition)


def began(dag_run: Any) -> float:
    """Return when a run began in this Airflow, in seconds since 1970."""
    return float(dag_run.start_date.timestamp())


class RunPage(BaseOperatorLink):
    """Link to the page of the task's run."""

    name = "Run"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002
        """Return the page's address. Called by Airflow."""
        return _page("run", dag=ti_key.dag_id, run=ti_key.run_id)


class LedgerPage(BaseOperatorLink):
    """Link to the ledger of the task's party."""

    name = "Ledger"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002
        """Return the page's address. Called by Airflow."""
        return _page("ledger", party=operator.owner)


def _page(name: str, **query: str) -> str:
    # Path only: a worker need not know the host by which users reach Airflow.
    path = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")
    return f"{path}/{PREFIX}/{name}?{urlencode(query)}"


class PartyOperator(BaseOperator):
    """A task of one party, on its own queue.

    While the task awaits an approval or another Airflow, it occupies no slot. If Airflow assigns
    triggers by queue, the party's own triggerer polls for it. Otherwise, or if no triggerer takes
    the trigger, Airflow reschedules the task for each poll.

    No field is a template, because the arguments hold text from federation files and faults.

    Args:
        python_callable: The task's function; its result is pushed to XCom.
        op_kwargs: The function's arguments.
        **others: Arguments of `BaseOperator`.
    """

    operator_extra_links: Collection[BaseOperatorLink] = (RunPage(), LedgerPage())

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        op_kwargs: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> None:
        super().__init__(**others)
        self.python_callable = python_callable
        self.op_kwargs = dict(op_kwargs or {})

    def execute(self, context: Context) -> Any:
        """Run the task, or defer it. Called by Airflow."""
        return self._do(context)

    def awake(self, context: Context, event: Any = None) -> Any:
        """Run the task after its trigger fired. Called by Airflow.

        Args:
            context: Airflow's task context.
            event: The trigger's event. It only decides how the task polls, if it must wait again.
        """
        return self._do(context, _WOKEN_EARLY if event == WOKEN else "")

    def resume_execution(
        self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context
    ) -> Any:
        """Resume after a wait, even if no triggerer took the trigger. Called by Airflow.

        Args:
            next_method: Name of the method to resume with.
            next_kwargs: The method's arguments.
            context: Airflow's task context.
        """
        if next_method != _TRIGGER_FAILED:
            return super().resume_execution(next_method, next_kwargs, context)
        start = f"Start one next to its workers: airflow triggerer --queues {self.queue}"
        return self._do(context, f"No triggerer polled for it. {start}")

    def _do(self, context: Context, no_trigger_because: str = "") -> Any:
        try:
            return self.python_callable(**self.op_kwargs)
        except NotReady as error:
            # Kept past the except block, in which Python deletes the name.
            not_ready = error
        return self._wait(not_ready, context, no_trigger_because)

    def _wait(self, not_ready: NotReady, context: Context, no_trigger_because: str) -> None:
        queues = conf.getboolean("triggerer", "queues_enabled", fallback=False)
        # A task that was rescheduled before is rescheduled again: no triggerer had taken it.
        if queues and not no_trigger_because and not context.get("task_reschedule_count"):
            trigger = StoreTrigger(
                not_ready.condition, not_ready.arguments, began(context["dag_run"])
            )
            self.defer(trigger=trigger, method_name="awake", timeout=_TRIGGER_TIMEOUT)
        if no_trigger_because and queues:
            _LOG.warning("This task polls by itself from now on. %s", no_trigger_because)
        next_poll = datetime.now(UTC) + timedelta(seconds=not_ready.seconds)
        raise AirflowRescheduleException(next_poll)  # type: ignore[no-untyped-call]


class StoreSensor(PartyOperator):
    """A task that waits for artifacts from another Airflow."""


class FormOperator(PartyOperator):
    """The task that opens a run from a form in a handwritten DAG, whose values are templates.

    Args:
        form: The form's values, by field.
        **others: Arguments of `PartyOperator`.
    """

    template_fields = ("form",)

    def __init__(self, *, form: Mapping[str, Any], **others: Any) -> None:
        super().__init__(**others)
        self.form = dict(form)

    def _do(self, context: Context, no_trigger_because: str = "") -> Any:
        self.op_kwargs = {**self.op_kwargs, "form": self.form}
        return super()._do(context, no_trigger_because)


class FaultyFileOperator(PartyOperator):
    """The single task of a faulty federation file; it belongs to no party and has no page."""

    operator_extra_links = ()

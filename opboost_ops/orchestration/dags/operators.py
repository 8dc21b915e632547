"""The operators of a federation's DAGs: what a party's task does, its pages, and how it waits."""

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

#: After so long without an answer no triggerer has taken a wait.
_PATIENCE = LIFETIME + timedelta(minutes=2)

#: Airflow resumes a task by this method if its trigger has failed, or nothing came of it in time.
_NOTHING_CAME = "__fail__"

_WOKEN_EARLY = (
    "Its triggerer woke it with nothing to do; give that one the site, the environment and the "
    "release of this party's workers."
)


class StillWaiting(Exception):  # noqa: N818 - no error: it ends a look
    """A task has nothing to do yet, and gives its slot back.

    Args:
        look: What it waits for; see `sensors.LOOKS`.
        arguments: Of that look.
        seconds: Until it looks again, where no triggerer looks for it.
    """

    def __init__(self, look: str, arguments: Mapping[str, Any], seconds: float) -> None:
        self.look = look
        self.arguments = dict(arguments)
        self.seconds = seconds
        super().__init__(look)


def began(dag_run: Any) -> float:
    """When a run began here, in seconds since 1970."""
    return float(dag_run.start_date.timestamp())


class RunPage(BaseOperatorLink):
    """The page of the task's run."""

    name = "Run"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002
        """Its address. Airflow calls it."""
        return _page("run", dag=ti_key.dag_id, run=ti_key.run_id)


class LedgerPage(BaseOperatorLink):
    """The ledger of the task's party."""

    name = "Ledger"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002
        """Its address. Airflow calls it."""
        return _page("ledger", party=operator.owner)


def _page(name: str, **query: str) -> str:
    # The path alone: a worker need not know by which host people reach Airflow.
    path = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")
    return f"{path}/{PREFIX}/{name}?{urlencode(query)}"


class PartyOperator(BaseOperator):
    """A task of one party, on its own queue.

    While it waits, for a person's answer or for another Airflow, it holds no slot. Where Airflow's
    triggers go by queues, the party's own triggerer looks for it; elsewhere, and where no triggerer
    has taken it, the task is started for each look.

    None of its fields is a template: its arguments hold text of federation files and faults.

    Args:
        python_callable: What it does; returns what the task leaves in XCom.
        op_kwargs: Its arguments.
        **others: An operator's.
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
        """Do it, or wait. Airflow calls it.

        Args:
            context: Airflow's.
        """
        return self._do(context)

    def awake(self, context: Context, event: Any = None) -> Any:
        """Do it after a triggerer's look. Airflow calls it.

        Args:
            context: Airflow's.
            event: What the trigger left. It decides nothing but how the task waits, if it must.
        """
        return self._do(context, _WOKEN_EARLY if event == WOKEN else "")

    def resume_execution(
        self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context
    ) -> Any:
        """Go on after a wait, also if no triggerer has taken it. Airflow calls it.

        Args:
            next_method: The method by which the wait was to end.
            next_kwargs: Its arguments.
            context: Airflow's.
        """
        if next_method != _NOTHING_CAME:
            return super().resume_execution(next_method, next_kwargs, context)
        start = f"Start one beside its workers: airflow triggerer --queues {self.queue}"
        return self._do(context, f"No triggerer looked for it. {start}")

    def _do(self, context: Context, alone: str = "") -> Any:
        try:
            return self.python_callable(**self.op_kwargs)
        except StillWaiting as found:
            waits = found
        return self._wait(waits, context, alone)

    def _wait(self, waits: StillWaiting, context: Context, alone: str) -> None:
        queues = conf.getboolean("triggerer", "queues_enabled", fallback=False)
        # A task that was started for a look before goes on so: no triggerer had taken it.
        if queues and not alone and not context.get("task_reschedule_count"):
            trigger = StoreTrigger(waits.look, waits.arguments, began(context["dag_run"]))
            self.defer(trigger=trigger, method_name="awake", timeout=_PATIENCE)
        if alone and queues:
            _LOG.warning("This task checks by itself from now on. %s", alone)
        again = datetime.now(UTC) + timedelta(seconds=waits.seconds)
        raise AirflowRescheduleException(again)  # type: ignore[no-untyped-call]


class StoreSensor(PartyOperator):
    """A task that waits for what comes from another Airflow."""


class FormOperator(PartyOperator):
    """The task that opens a run from a form written in the DAG's code, whose values are templates.

    Args:
        form: The fields, by name.
        **others: A `PartyOperator`'s.
    """

    template_fields = ("form",)

    def __init__(self, *, form: Mapping[str, Any], **others: Any) -> None:
        super().__init__(**others)
        self.form = dict(form)

    def _do(self, context: Context, alone: str = "") -> Any:
        self.op_kwargs = {**self.op_kwargs, "form": self.form}
        return super()._do(context, alone)


class FaultyFileOperator(PartyOperator):
    """The one task of a faulty federation file: it belongs to no party and has no page."""

    operator_extra_links = ()

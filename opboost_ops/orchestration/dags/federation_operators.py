"""Operators that run a federation's own DAG from another DAG, for teams that are no party.

The tasks of a run are on the queues of several parties, so one task triggers the run and defers
until it has ended.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import Context

from opboost_ops.config.federation import Purpose

#: Seconds between two looks of the triggerer.
_POLL = 10


class _RunFederation(TriggerDagRunOperator):
    """Triggers a federation's DAG, defers until its run has ended, and returns the run's result.

    It needs a triggerer. A failed run fails the task; tried again or cleared, the task triggers a
    new run. ``form`` is a template: the author of the DAG writes it, as for
    `FederationTaskGroup`.

    Args:
        federation: Name of the federation.
        form: Values of the trigger form, by name; what is absent is as declared.
        **others: A `TriggerDagRunOperator`'s.
    """

    _purpose: ClassVar[Purpose]
    _result: ClassVar[str]

    def __init__(
        self, *, federation: str, form: Mapping[str, Any] | None = None, **others: Any
    ) -> None:
        settings = {"poke_interval": _POLL, "fail_when_dag_is_paused": True, **others}
        super().__init__(
            trigger_dag_id=f"{federation}_{self._purpose}",
            conf=dict(form or {}),
            wait_for_completion=True,
            deferrable=True,
            # The form takes its own fields alone.
            openlineage_inject_parent_info=False,
            **settings,
        )

    def execute_complete(self, context: Context, event: tuple[str, dict[str, Any]]) -> Any:
        """Return the result of the run that has ended. Airflow calls it.

        Args:
            context: Airflow's.
            event: How the run ended.
        """
        super().execute_complete(context, event)
        ti: Any = context["ti"]
        where = {"dag_id": self.trigger_dag_id}
        (states,) = ti.get_task_states(**where, run_ids=[self.trigger_run_id]).values()
        names = sorted(name for name in states if name.rpartition(".")[2] == self._result)
        return ti.xcom_pull(task_ids=names[0], run_id=self.trigger_run_id, **where)


class TrainFederation(_RunFederation):
    """Runs ``<federation>_train``, and returns ``{"version": ..., "champion": ...}``."""

    _purpose = "train"
    _result = "register"


class ScoreFederation(_RunFederation):
    """Runs ``<federation>_score``, and returns the summary of `write_scores`."""

    _purpose = "score"
    _result = "write_scores"

"""A federation's run inside a handwritten DAG, as a task group or as one operator.

For parties that share one Airflow. The DAGs of `build_dags` do not use this module.

Example:
    with DAG("nightly", schedule="@daily", start_date=datetime(2026, 1, 1)) as dag:
        refresh() >> FederationTaskGroup("/srv/credit/federation.yaml") >> send_report()

The tasks of a run are on the queues of several parties. `TrainFederation` and `ScoreFederation`
instead trigger the run in a single task, which defers until the run has ended.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import BaseXCom, Context, TaskGroup

from opboost_ops.config.federation import Purpose
from opboost_ops.config.loading import load_federation
from opboost_ops.errors import ConfigError
from opboost_ops.orchestration.dags.documentation import scoring_form, training_form
from opboost_ops.orchestration.dags.groups import add_groups, task_defaults
from opboost_ops.orchestration.dags.lineage import disable_lineage
from opboost_ops.orchestration.pages.airflow import TAG

#: Seconds between two polls of the triggerer.
_POLL = 10


class _Summary(BaseXCom):
    """A run's result, read without making objects: any worker can overwrite it."""

    @staticmethod
    def deserialize_value(result: Any) -> Any:
        """Return the JSON value. Called by Airflow."""
        return result.value


def _is_plain(value: Any) -> bool:
    """Return True for JSON in which Airflow's deserialisation finds no class to import."""
    if isinstance(value, Mapping):
        return all(not name.startswith("__") and _is_plain(v) for name, v in value.items())
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | int | float)


class FederationTaskGroup(TaskGroup):
    """All tasks of a training or scoring run as a group of a handwritten DAG.

    Task ids are those of the federation's own DAG below this group's id; queues and owners are the
    parties'. The DAG gets the federation's tags, by which listeners and users find it. The run's
    id derives from the DAG and its run, so a DAG may contain a federation only once.

    Args:
        federation_file: Path of ``federation.yaml`` in the DAG processor and on the label holder's
            worker.
        purpose: ``train`` or ``score``.
        form: Values of the trigger form, by field. They are templates: for example
            ``{"trees": "{{ params.trees }}"}``. An empty value means as declared. The DAG's other
            parameters and its run's configuration are not read.
        group_id: This group's id; ``<federation>_<purpose>`` by default.
        default_args: Override the federation's retries, callbacks and timeouts. Owners and queues
            cannot be overridden.
        **more: Arguments of `airflow.sdk.TaskGroup`, such as ``tooltip`` or ``prefix_group_id``.

    Raises:
        ConfigError: The file has faults, the form has no such field, the DAG already has a group of
            this federation, or OpenLineage would emit events of its tasks.
    """

    def __init__(
        self,
        federation_file: str | Path,
        purpose: Purpose = "train",
        *,
        form: Mapping[str, Any] | None = None,
        group_id: str | None = None,
        default_args: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        path = Path(federation_file)
        federation = load_federation(path)
        # Airflow annotates the parameter with the type after its converter.
        defaults: Any = {**task_defaults(federation), **(default_args or {})}
        name = group_id or f"{federation.name}_{purpose}"
        super().__init__(group_id=name, default_args=defaults, **more)
        fields = training_form(federation) if purpose == "train" else scoring_form()
        if unknown := sorted(set(form or ()) - set(fields)):
            raise ConfigError(
                f"The form has no field {', '.join(unknown)}.", f"It has {', '.join(fields)}."
            )
        dag: Any = self.dag
        if federation.name in dag.tags:
            raise ConfigError(
                f"{dag.dag_id} already has a task group of {federation.name}; one run of a DAG is "
                "one run of a federation.",
                "Use a separate DAG for it. Scoring can be scheduled on the champion's asset.",
            )
        dag.tags |= {TAG, purpose, federation.name, *federation.parties}
        before = set(dag.task_ids)
        with self:
            add_groups(federation, purpose, path, dict(form or {}))
        disable_lineage(dag, [dag.get_task(name) for name in dag.task_ids if name not in before])


class _RunFederation(TriggerDagRunOperator):
    """Triggers a federation's DAG, defers until its run has ended, and returns the run's result.

    Requires a triggerer. A failed run fails the task; a retried or cleared task triggers a new run.
    ``form`` is a template, as for `FederationTaskGroup`.

    Args:
        federation: Name of the federation.
        form: Values of the trigger form, by field; missing ones are as declared.
        **others: Arguments of `TriggerDagRunOperator`.
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
            # The federation's form rejects unknown fields.
            openlineage_inject_parent_info=False,
            **settings,
        )

    def execute_complete(self, context: Context, event: tuple[str, dict[str, Any]]) -> Any:
        """Return the result of the finished run. Called by Airflow.

        Args:
            context: Airflow's task context.
            event: The run's final state.
        """
        super().execute_complete(context, event)
        ti: Any = context["ti"]
        where: dict[str, Any] = {"dag_id": self.trigger_dag_id}
        (states,) = ti.get_task_states(**where, run_ids=[self.trigger_run_id]).values()
        names = sorted(name for name in states if name.rpartition(".")[2] == self._result)
        result = _Summary.get_one(
            key=BaseXCom.XCOM_RETURN_KEY, task_id=names[0], run_id=str(self.trigger_run_id), **where
        )
        if not _is_plain(result):
            raise ConfigError(
                f"The result of run {self.trigger_run_id} of {self.trigger_dag_id} was changed in "
                "Airflow.",
                "Find out which worker wrote it, then clear the last tasks of that run.",
            )
        return result


class TrainFederation(_RunFederation):
    """Runs ``<federation>_train``, and returns ``{"version": ..., "champion": ...}``."""

    _purpose = "train"
    _result = "register"


class ScoreFederation(_RunFederation):
    """Runs ``<federation>_score``, and returns the summary of `write_scores`."""

    _purpose = "score"
    _result = "write_scores"

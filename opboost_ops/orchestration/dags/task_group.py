"""A federation's run as a task group, between other tasks of a DAG that people write themselves.

For parties that share one Airflow. The DAGs of `build_dags` need nothing of this.

Example:
    with DAG("nightly", schedule="@daily", start_date=datetime(2026, 1, 1)) as dag:
        refresh() >> FederationTaskGroup("/srv/credit/federation.yaml") >> tell_people()

The tasks of a run are on the queues of several parties, so one task triggers the run and defers
until it has ended.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import Context, TaskGroup

from opboost_ops.config.federation import Purpose
from opboost_ops.config.loading import load_federation
from opboost_ops.errors import ConfigError
from opboost_ops.orchestration.dags.documentation import scoring_form, training_form
from opboost_ops.orchestration.dags.groups import add_groups, task_defaults
from opboost_ops.orchestration.dags.lineage import leave_out
from opboost_ops.orchestration.pages.airflow import TAG

#: Seconds between two looks of the triggerer.
_POLL = 10


class FederationTaskGroup(TaskGroup):
    """All tasks of one federation's training or scoring, to be put between one's own.

    Group and task ids are those of the federation's own DAG, below this group's id; queues
    and owners are the parties'. The DAG gets their tags, by which listeners and people find it. The
    run's id comes from the DAG and its run, as elsewhere, so a DAG holds a federation once.

    Args:
        federation_file: ``federation.yaml``, as the DAG processor and the label holder's worker
            find it.
        purpose: ``train`` or ``score``.
        form: What the trigger form would have given, by name. Values are templates: for example
            ``{"trees": "{{ params.trees }}"}``. An empty one means as declared. Nothing else of
            the DAG's parameters or its run's configuration is read.
        group_id: This group's id; ``<federation>_<purpose>`` when absent.
        default_args: Win over ours: retries, callbacks, times. Owners and queues stay the parties'.
        **more: As of `airflow.sdk.TaskGroup`: ``tooltip``, ``prefix_group_id``, ...

    Raises:
        ConfigError: The file has faults, the form has no such field, the DAG has a group of this
            federation already, or OpenLineage would send events of its tasks.
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
        # Airflow's own type of it is that of what a converter has made already.
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
                f"{dag.dag_id} has a task group of {federation.name} already; one run of a DAG is "
                "one run of a federation.",
                "Make a DAG of its own for it. Scoring can start by the champion's asset.",
            )
        dag.tags |= {TAG, purpose, federation.name, *federation.parties}
        before = set(dag.task_ids)
        with self:
            add_groups(federation, purpose, path, dict(form or {}))
        leave_out(dag, [dag.get_task(name) for name in dag.task_ids if name not in before])


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

"""The DAG for admin actions on a federation at one party: promote, roll back, stop, resume."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.listeners import hookimpl
from airflow.sdk import DAG, Param, ParamsDict  # type: ignore[attr-defined]

from opboost_ops.config.federation import Federation
from opboost_ops.config.policy import ADMIN_ACTIONS, REASONS
from opboost_ops.orchestration.dags import tasks
from opboost_ops.orchestration.dags.groups import common_of
from opboost_ops.orchestration.dags.operators import PartyOperator
from opboost_ops.orchestration.dags.run_notes import ADMIN_TAG, our_session
from opboost_ops.orchestration.pages.airflow import TAG


@hookimpl
def on_dag_run_running(dag_run: Any) -> None:
    """Skip the tasks of all parties except the one that the form names.

    Args:
        dag_run: The scheduler's run, in its session.
    """
    session = our_session(dag_run)
    if session is None or ADMIN_TAG not in dag_run.dag.tags:
        return
    requested = f"{(dag_run.conf or {}).get('party')}_act"
    instances = dag_run.get_task_instances(session=session)
    if any(ti.task_id == requested for ti in instances):
        for ti in instances:
            if ti.task_id != requested and ti.state is None:
                ti.set_state("skipped", session=session)


#: An action fails after this time, because no worker of its party took the task.
_TIMEOUT = timedelta(minutes=15)

_ACTION_LABELS = {
    "promote": "promote: the version becomes champion, whatever the gate said",
    "roll_back": "roll back: a former champion becomes champion again",
    "stop": "stop: the party takes part in no run, the current one included, until it resumes",
    "resume": "resume: the party takes part again, and the schedule continues",
}


def admin_dag(
    federation: Federation, defaults: dict[str, Any], local_parties: Sequence[str]
) -> DAG:
    """Return the admin DAG, with a task per party on its own queue; each run performs one.

    Args:
        federation: The parsed federation file.
        defaults: Default arguments of its tasks.
        local_parties: The parties whose tasks this Airflow runs.
    """
    with DAG(
        auto_register=False,
        dag_id=f"{federation.name}_admin",
        description=f"Promote, roll back, stop or resume taking part in {federation.name}.",
        doc_md=(
            "A run of this DAG performs one action at one party, in that party's own task; the "
            "others are skipped. The party's audit log records the action, the user who "
            "triggered it, according to Airflow, and the reason. Airflow's database keeps the "
            "form, so the reason is selected from public words; do not add others in the run's "
            "note. A party performs only the actions that `acts` in its `policy.yaml` allows: by "
            f"default, none. To score with a version, trigger `{federation.name}_score`."
        ),
        schedule=None,
        catchup=False,
        # One action at a time, in order; if the party's worker is absent, the run times out.
        max_active_runs=1,
        dagrun_timeout=_TIMEOUT,
        tags=[TAG, ADMIN_TAG, federation.name, *local_parties],
        default_args=defaults,
    ) as dag:
        for party in local_parties:
            PartyOperator(
                task_id=f"{party}_act",
                doc_md="Performs the requested action at this party, and records it in its "
                "audit log.",
                python_callable=tasks.act,
                op_kwargs={"party": party, "federation": federation.name},
                **common_of(federation, party),
            )
    # Set last, as for the other DAGs: otherwise each operator would copy them.
    dag.params = ParamsDict(_form(federation, local_parties))
    return dag


def _form(federation: Federation, parties: Sequence[str]) -> dict[str, Param]:
    promotes = "any party" if federation.learning == "horizontal" else federation.label_holder
    return {
        "party": Param(
            title="Party", description="The party that acts.", type="string", enum=list(parties)
        ),
        "act": Param(
            title="What",
            description=f"Versions are promoted and rolled back at {promotes}.",
            type="string",
            enum=list(ADMIN_ACTIONS),
            values_display=_ACTION_LABELS,
        ),
        "version": Param(
            None,
            title="Model version",
            description=(
                "The version to promote or to roll back to: its 16 hexadecimal digits, as shown on "
                "the models page."
            ),
            type=["null", "string"],
            pattern="^([0-9a-f]{16})?$",
        ),
        "reason": Param(
            title="Why",
            description=(
                "Anyone who sees this DAG can read it. To give a reason in your own words, use the "
                "`opboost` command on the party's own machine."
            ),
            type="string",
            enum=list(REASONS),
        ),
    }

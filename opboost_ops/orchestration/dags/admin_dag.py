"""The DAG by which a person acts on a federation at one party: promote, roll back, stop, resume."""

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
    """Skip the tasks of parties of which nothing is requested.

    Args:
        dag_run: The scheduler's run, in its session.
    """
    session = our_session(dag_run)
    if session is None or ADMIN_TAG not in dag_run.dag.tags:
        return
    wanted = f"{(dag_run.conf or {}).get('party')}_act"
    instances = dag_run.get_task_instances(session=session)
    if any(ti.task_id == wanted for ti in instances):
        for ti in instances:
            if ti.task_id != wanted and ti.state is None:
                ti.set_state("skipped", session=session)


#: After this an action has failed: its party's worker did not take the task.
_TIMEOUT = timedelta(minutes=15)

_WORDS = {
    "promote": "promote: the version becomes champion, whatever the gate said",
    "roll_back": "roll back: a former champion becomes champion again",
    "stop": "stop: the party takes part in no run, the current one included, until it resumes",
    "resume": "resume: the party takes part again, and the schedule continues",
}


def admin_dag(
    federation: Federation, defaults: dict[str, Any], here: Sequence[str] | None = None
) -> DAG:
    """A DAG with a task per party, on its own queue, of which each run runs one.

    Args:
        federation: What its file says.
        defaults: Default arguments of its tasks.
        here: The parties of this Airflow; all when absent.
    """
    parties = list(federation.parties if here is None else here)
    with DAG(
        auto_register=False,
        dag_id=f"{federation.name}_admin",
        description=f"Promote, roll back, stop or resume taking part in {federation.name}.",
        doc_md=(
            "A run of this DAG performs one action at one party, in that party's own task; the "
            "others are skipped. The party's audit log records the action, who triggered it, as "
            "Airflow says, and why. Airflow's database keeps the form, so the reason is selected "
            "from public words; do not write others into the run's note. A party does only what "
            "`acts` in its `policy.yaml` allows: by default, nothing. To score with a version, "
            f"trigger `{federation.name}_score`."
        ),
        schedule=None,
        catchup=False,
        # One action at a time, in order; that of a party whose worker is away ends by itself.
        max_active_runs=1,
        dagrun_timeout=_TIMEOUT,
        tags=[TAG, ADMIN_TAG, federation.name, *parties],
        default_args=defaults,
    ) as dag:
        for party in parties:
            PartyOperator(
                task_id=f"{party}_act",
                doc_md="Performs the requested action at this party, and records it in its "
                "audit log.",
                python_callable=tasks.act,
                op_kwargs={"party": party, "federation": federation.name},
                **common_of(federation, party),
            )
    # Set last, as for the other DAGs: each operator would copy them.
    dag.params = ParamsDict(_form(federation, parties))
    return dag


def _form(federation: Federation, parties: Sequence[str]) -> dict[str, Param]:
    keeps = "any party" if federation.learning == "horizontal" else federation.label_holder
    return {
        "party": Param(
            title="Party", description="The party that acts.", type="string", enum=list(parties)
        ),
        "act": Param(
            title="What",
            description=f"Versions are promoted and rolled back at {keeps}.",
            type="string",
            enum=list(ADMIN_ACTIONS),
            values_display=_WORDS,
        ),
        "version": Param(
            None,
            title="Model version",
            description=(
                "To promote, or to roll back to: its 16 hexadecimal digits, as the models page "
                "shows them."
            ),
            type=["null", "string"],
            pattern="^([0-9a-f]{16})?$",
        ),
        "reason": Param(
            title="Why",
            description=(
                "Anyone who sees this DAG can read it. To give a reason in your own words, act at "
                "home."
            ),
            type="string",
            enum=list(REASONS),
        ),
    }

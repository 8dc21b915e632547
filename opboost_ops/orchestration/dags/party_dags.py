"""DAGs of an Airflow that runs some of the parties; they meet the others' at the store."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, TaskGroup

from opboost_ops.config.federation import Federation, Purpose
from opboost_ops.orchestration.dags import sensors
from opboost_ops.orchestration.dags.documentation import JOINS, OWN_AIRFLOW
from opboost_ops.orchestration.dags.groups import Lead, add_group, common_of, opens, party_of
from opboost_ops.orchestration.dags.operators import PartyOperator, StoreSensor
from opboost_ops.orchestration.pages.airflow import TAG
from opboost_ops.pipeline.phases import phases, stages_of
from opboost_ops.pipeline.protocol import Phase


def names_in(value: str | None) -> tuple[str, ...] | None:
    """The parties of this Airflow.

    Args:
        value: Of `OPBOOST_PARTIES`: names, comma separated.

    Returns:
        Their names; None for all, where the variable is not set or empty.
    """
    if value is None or not value.strip():
        return None
    return tuple(name.strip() for name in value.split(",") if name.strip())


def here_of(federation: Federation, parties: Sequence[str] | None) -> tuple[str, ...] | None:
    """Which of a federation's parties are in this Airflow.

    Args:
        federation: What its file says.
        parties: Those of this Airflow; all when absent.

    Returns:
        Their names, perhaps none; None for all.
    """
    if parties is None or set(federation.parties) <= set(parties):
        return None
    return tuple(name for name in federation.parties if name in parties)


#: Between the end of waiting, which says what did not come, and the end of the run, which does not.
MARGIN = timedelta(minutes=15)

#: What only looks does no harm when it is tried again.
_AGAIN: dict[str, Any] = {
    "retries": 10,
    "retry_delay": timedelta(minutes=1),
    "retry_exponential_backoff": 0,
}

_START = datetime(2026, 1, 1, tzinfo=UTC)


def add_own_groups(
    federation: Federation,
    purpose: Purpose,
    path: Path,
    here: Sequence[str],
) -> None:
    """Add to the DAG at hand the tasks of a run that are this Airflow's.

    Args:
        federation: What its file says.
        purpose: What the runs are for.
        path: The file, as the label holder's worker finds it.
        here: The parties of this Airflow.
    """
    holder = federation.label_holder
    ends: dict[str, Any] = {}
    opened: Any = None
    for phase in phases(federation, purpose):
        before = dict(ends)
        senders = phase.senders(federation)
        absent = [name for name in senders if name not in here]
        for party in [name for name in phase.parties(federation) if name in here]:
            lead = _waits(federation, purpose, phase, party, absent) if absent else None
            if party == holder and opened is None:
                lead = opens(federation, purpose, path)
            elif party not in before and holder in here:
                before[party] = opened
            elif party not in before:
                before[party] = _joins(federation, purpose, party)
            chain = add_group(federation, phase, party, lead)
            for name in dict.fromkeys((party, *senders)):
                if name in before:
                    before[name] >> chain[0]
            ends[party] = chain[-1]
            opened = opened or chain[0]


def join_dag(federation: Federation, here: Sequence[str], defaults: Mapping[str, Any]) -> DAG:
    """The DAG that starts this Airflow's tasks of each run that the label holder opens.

    Args:
        federation: What its file says.
        here: The parties of this Airflow; the label holder is not among them.
        defaults: Default arguments of its task.
    """
    holder, name = federation.label_holder, federation.name
    # The others here verify the plan when they join.
    party = here[0]
    with DAG(
        auto_register=False,
        dag_id=f"{name}_join",
        description=f"Joins the runs of {name} that {holder} opens in another Airflow.",
        doc_md=(
            f"Looks in the store for a plan that {holder} has signed and in which {party} has no "
            f"part yet, starts `{name}_train` or `{name}_score` here with a run ID that names the "
            "run, and then looks for the next plan. While this DAG is paused, no run is joined."
        ),
        schedule="@continuous",
        start_date=_START,
        catchup=False,
        max_active_runs=1,
        tags=[TAG, "join", name, *here],
        # Nothing was begun when a look fails, so it is tried again, but not at once.
        default_args={**defaults, **_AGAIN},
    ) as dag:
        StoreSensor(
            task_id="look_for_runs",
            doc_md=OWN_AIRFLOW["look_for_runs"],
            python_callable=sensors.look_for_runs,
            op_kwargs={
                **party_of(federation, party),
                "hours": federation.schedule.timeout_hours,
            },
            **common_of(federation, party),
        )
    return dag


def takes_part(federation: Federation, purpose: Purpose, here: Sequence[str]) -> bool:
    """True if any party of this Airflow has something to do in a run.

    Args:
        federation: What its file says.
        purpose: What the run is for.
        here: The parties of this Airflow.
    """
    return any(stages_of(federation, purpose, party) for party in here)


def _joins(federation: Federation, purpose: Purpose, party: str) -> Any:
    title, tooltip = JOINS
    with TaskGroup(f"{party}_open", group_display_name=f"{party}: {title}", tooltip=tooltip):
        common = common_of(federation, party)
        return PartyOperator(
            task_id="join_run",
            doc_md=OWN_AIRFLOW["join_run"],
            python_callable=sensors.join_run,
            op_kwargs={**party_of(federation, party), "purpose": purpose},
            **common,
        )


def _waits(
    federation: Federation, purpose: Purpose, phase: Phase, party: str, absent: Sequence[str]
) -> Lead:
    about = absent if party == federation.label_holder else [party]
    names = f"{' and '.join(phase.awaits)} of {', '.join(absent)}"
    return partial(
        StoreSensor,
        task_id=f"wait_for_{phase.awaits[0]}",
        doc_md=OWN_AIRFLOW["wait_for"].format(names),
        python_callable=sensors.wait_for,
        op_kwargs={
            **party_of(federation, party),
            "purpose": purpose,
            "wanted": [f"{kind}/{name}" for name in about for kind in phase.awaits],
            "hours": federation.schedule.timeout_hours,
        },
        **_AGAIN,
        **common_of(federation, party),
    )

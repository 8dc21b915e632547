"""DAGs of an Airflow that runs the tasks of some parties; the store connects it to the others."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, TaskGroup

from opboost_ops.config.federation import Federation, Purpose
from opboost_ops.orchestration.dags import sensors
from opboost_ops.orchestration.dags.documentation import JOINS, OWN_AIRFLOW
from opboost_ops.orchestration.dags.groups import (
    Lead,
    add_group,
    common_of,
    open_run_task,
    party_of,
)
from opboost_ops.orchestration.dags.operators import PartyOperator, StoreSensor
from opboost_ops.orchestration.pages.airflow import TAG
from opboost_ops.pipeline.phases import phases, stages_of
from opboost_ops.pipeline.step_types import Phase


def names_in(value: str | None) -> tuple[str, ...] | None:
    """Parse ``OPBOOST_PARTIES``, the parties whose tasks this Airflow runs.

    Args:
        value: Comma-separated names.

    Returns:
        The names; None for all parties, if the variable is empty or not set.
    """
    if value is None or not value.strip():
        return None
    return tuple(name.strip() for name in value.split(",") if name.strip())


def local_parties_of(federation: Federation, parties: Sequence[str] | None) -> tuple[str, ...]:
    """Return a federation's parties whose tasks this Airflow runs.

    Args:
        federation: The parsed federation file.
        parties: The parties of this Airflow, over all federations; None for all.

    Returns:
        Their names, possibly none.
    """
    return tuple(name for name in federation.parties if parties is None or name in parties)


#: Time between a sensor's timeout, whose error names the missing input, and the run's own timeout.
MARGIN = timedelta(minutes=15)

#: Polling has no side effects, so retries are harmless.
_RETRY_OFTEN: dict[str, Any] = {
    "retries": 10,
    "retry_delay": timedelta(minutes=1),
    "retry_exponential_backoff": 0,
}

_START = datetime(2026, 1, 1, tzinfo=UTC)


def add_own_groups(
    federation: Federation,
    purpose: Purpose,
    path: Path,
    local_parties: Sequence[str],
) -> None:
    """Add this Airflow's tasks of a run to the current DAG.

    Args:
        federation: The parsed federation file.
        purpose: ``train`` or ``score``.
        path: Path of the file on the label holder's worker.
        local_parties: The parties of this Airflow.
    """
    holder = federation.label_holder
    ends: dict[str, Any] = {}
    opened: Any = None
    for phase in phases(federation, purpose):
        before = dict(ends)
        senders = phase.senders(federation)
        absent = [name for name in senders if name not in local_parties]
        for party in [name for name in phase.parties(federation) if name in local_parties]:
            lead = _wait_task(federation, purpose, phase, party, absent) if absent else None
            if party == holder and opened is None:
                lead = open_run_task(federation, purpose, path)
            elif party not in before and holder in local_parties:
                before[party] = opened
            elif party not in before:
                before[party] = _join_task(federation, purpose, party)
            chain = add_group(federation, phase, party, lead)
            for name in dict.fromkeys((party, *senders)):
                if name in before:
                    before[name] >> chain[0]
            ends[party] = chain[-1]
            opened = opened or chain[0]


def join_dag(
    federation: Federation, local_parties: Sequence[str], defaults: Mapping[str, Any]
) -> DAG:
    """Return the DAG that starts this Airflow's tasks of each run that the label holder opens.

    Args:
        federation: The parsed federation file.
        local_parties: The parties of this Airflow, without the label holder.
        defaults: Default arguments of its task.
    """
    holder, name = federation.label_holder, federation.name
    # One party polls for all; the others verify the plan when they join.
    party = local_parties[0]
    with DAG(
        auto_register=False,
        dag_id=f"{name}_join",
        description=f"Joins the runs of {name} that {holder} opens in another Airflow.",
        doc_md=(
            f"Polls the store for a plan that {holder} has signed and that {party} has not joined "
            f"yet, starts `{name}_train` or `{name}_score` here with a run id that names the run, "
            "and then polls for the next plan. While this DAG is paused, no run is joined."
        ),
        schedule="@continuous",
        start_date=_START,
        catchup=False,
        max_active_runs=1,
        tags=[TAG, "join", name, *local_parties],
        # A failed poll has started nothing, so it is retried after a delay.
        default_args={**defaults, **_RETRY_OFTEN},
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


def takes_part(federation: Federation, purpose: Purpose, local_parties: Sequence[str]) -> bool:
    """True if a party of this Airflow has tasks in such a run."""
    return any(stages_of(federation, purpose, party) for party in local_parties)


def _join_task(federation: Federation, purpose: Purpose, party: str) -> Any:
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


def _wait_task(
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
        **_RETRY_OFTEN,
        **common_of(federation, party),
    )

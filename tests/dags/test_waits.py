"""Waits in a triggerer: what wakes a task, and what does not."""

import asyncio
import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRescheduleException, TaskDeferred
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from opboost_ops.exchange.party_state import open_state
from opboost_ops.orchestration.dags import sensors, triggers
from opboost_ops.orchestration.dags.operators import NotReady, PartyOperator
from opboost_ops.orchestration.dags.sensors import arrived
from opboost_ops.orchestration.dags.triggers import WOKEN, StoreTrigger
from opboost_ops.pipeline.party import approval
from tests.federation import Workspace

FEDERATION = "credit_scoring"

RUN = SimpleNamespace(start_date=datetime.now(UTC))


class Counts:
    """What Airflow would answer when it is asked for failed tasks, or for runs."""

    count = 0

    @classmethod
    def get_ti_count(cls, **_: Any) -> int:
        return cls.count

    get_dr_count = get_ti_count


@pytest.fixture(autouse=True)
def counts(monkeypatch: pytest.MonkeyPatch) -> type[Counts]:
    monkeypatch.setattr(Counts, "count", 0)
    for name in ("get_ti_count", "get_dr_count"):
        monkeypatch.setattr(RuntimeTaskInstance, name, getattr(Counts, name))
    monkeypatch.setattr(triggers, "_MIN_PAUSE", 0.01)
    monkeypatch.setattr(triggers, "_AGE_FRACTION", 0.0)
    return Counts


def through_airflow(trigger: StoreTrigger) -> StoreTrigger:
    """The trigger as a triggerer makes it of what a worker has left in the database."""
    path, kwargs = trigger.serialize()
    assert path == "opboost_ops.orchestration.dags.triggers.StoreTrigger"
    return StoreTrigger(**json.loads(json.dumps(kwargs)))


def wakes(
    trigger: StoreTrigger, after: Callable[[], Any] | None = None, seconds: float = 30.0
) -> bool:
    """Whether the trigger wakes its task in time, perhaps after something has happened."""

    async def condition() -> bool:
        async def first() -> None:
            async for event in through_airflow(trigger).run():
                # Not what was found: the task looks itself.
                assert event.payload == WOKEN
                return

        running = asyncio.create_task(first())
        if after is not None:
            await asyncio.wait([running], timeout=0.3)
            assert not running.done()
            after()
        done, _ = await asyncio.wait([running], timeout=seconds)
        running.cancel()
        return bool(done)

    return asyncio.run(condition())


def artifacts(workspace: Workspace, party: str, wanted: str, hours: float = 12) -> StoreTrigger:
    where = {
        "party": party,
        "federation": FEDERATION,
        "label_holder": "credit",
        "purpose": "train",
        "wanted": [wanted],
        "hours": hours,
        "dag": f"{FEDERATION}_train",
        "run": f"joined__{workspace.run}",
        "started": 0.0 if hours < 1 else 4e9,
    }
    return StoreTrigger("artifacts", where, 0.0)


@pytest.fixture
def opened(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    for party in ("credit", "bank", "shop"):
        site = workspace.folder / party / "site.yaml"
        monkeypatch.setenv(f"OPBOOST_SITE_{party.upper()}", str(site))
    workspace.open()
    return workspace


def test_an_artifact_wakes_its_task(opened: Workspace) -> None:
    def published() -> None:
        for stage in ("check_table", "digest_ids", "psi_query"):
            opened.step("credit", stage)

    assert wakes(artifacts(opened, "bank", "psi_query/bank"), published)


def test_a_run_to_join_wakes_its_task_until_it_was_started(
    opened: Workspace, counts: type[Counts], monkeypatch: pytest.MonkeyPatch
) -> None:
    where = {"party": "bank", "federation": FEDERATION, "label_holder": "credit", "hours": 12}
    trigger = StoreTrigger("runs", where, 0.0)
    assert wakes(trigger)
    monkeypatch.setattr(counts, "count", 1)
    assert not wakes(trigger, seconds=1.0)


def test_what_ends_a_wait_wakes_the_task_which_says_why(
    opened: Workspace, counts: type[Counts], monkeypatch: pytest.MonkeyPatch
) -> None:
    trigger = artifacts(opened, "bank", "psi_query/bank")
    assert not wakes(trigger, seconds=1.0)
    assert wakes(artifacts(opened, "bank", "psi_query/bank", hours=0.1))
    monkeypatch.setattr(counts, "count", 1)
    assert wakes(trigger)
    with pytest.raises(Exception, match="failed here"):
        arrived(counts, **trigger.arguments)


def test_the_network_wakes_nobody(opened: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    trigger = artifacts(opened, "bank", "psi_query/bank")

    def away(_: Any, **__: Any) -> bool:
        raise ConnectionRefusedError

    monkeypatch.setattr(sensors, "CONDITIONS", {"artifacts": away})
    assert not wakes(trigger, seconds=1.0)


def test_stores_that_hang_delay_no_other_wait(
    opened: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = threading.Event()
    found = {"hangs": lambda *_: end.wait(60), "comes": lambda *_: True}
    monkeypatch.setattr(sensors, "CONDITIONS", found)

    async def woken() -> list[str]:
        # More than asyncio has threads of its own for all.
        names = [*["hangs"] * 40, "comes"]
        runs = [anext(StoreTrigger(name, {}, 0.0).run()) for name in names]
        waiting = [asyncio.create_task(run) for run in runs]
        done, rest = await asyncio.wait(waiting, timeout=10, return_when="FIRST_COMPLETED")
        end.set()
        await asyncio.wait(rest)
        return [names[waiting.index(task)] for task in done]

    assert asyncio.run(woken()) == ["comes"]


def test_an_answer_of_a_person_wakes_its_task(opened: Workspace) -> None:
    site = opened.site("bank")
    place = f"{FEDERATION}/{opened.run}/approval"
    with open_state(site) as state:
        state.audit.add("asked", place, "bank", "0" * 64, "first release")
    where = {"party": "bank", "federation": FEDERATION, "run": opened.run}

    def answered() -> None:
        with open_state(site) as state:
            state.audit.add("approved", place, "bank", "0" * 64, "by somebody")

    assert wakes(StoreTrigger("answer", where, 0.0), answered)


def test_a_person_who_does_not_answer_in_time_wakes_the_task(
    opened: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until its task looks, the time is not over: an answer would still count."""
    site = opened.site("bank")
    place = f"{FEDERATION}/{opened.run}/approval"
    with open_state(site) as state:
        state.audit.add("asked", place, "bank", "0" * 64, "first release")
    trigger = StoreTrigger(
        "answer", {"party": "bank", "federation": FEDERATION, "run": opened.run}, 0.0
    )
    assert not wakes(trigger, seconds=1.0)
    monkeypatch.setattr(approval, "HOURS", 1e-5)
    assert wakes(trigger)


def test_a_triggerer_without_the_site_starts_its_task_once_and_not_again_and_again(
    opened: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    trigger = artifacts(opened, "bank", "psi_query/bank")
    monkeypatch.delenv("OPBOOST_SITE_BANK")
    assert wakes(trigger)
    context: Any = {"dag_run": RUN, "task_reschedule_count": 0}
    with pytest.raises(AirflowRescheduleException):
        waiting(True, monkeypatch).awake(context, WOKEN)


def waiting(queues: bool, monkeypatch: pytest.MonkeyPatch) -> PartyOperator:
    monkeypatch.setenv("AIRFLOW__TRIGGERER__QUEUES_ENABLED", str(queues))

    def work(party: str) -> None:
        raise NotReady("answer", {"party": party}, 30.0)

    return PartyOperator(task_id="t", python_callable=work, op_kwargs={"party": "bank"})


def test_a_task_defers_where_triggers_go_by_queues_and_is_rescheduled_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    context: Any = {"dag_run": RUN, "task_reschedule_count": 0}
    with pytest.raises(TaskDeferred) as caught:
        waiting(True, monkeypatch).awake(context)
    assert caught.value.trigger.arguments == {"party": "bank"}
    assert caught.value.timeout > triggers.LIFETIME
    with pytest.raises(AirflowRescheduleException):
        waiting(False, monkeypatch).awake(context)
    # No triggerer took it: the task looks itself from then on.
    alone = waiting(True, monkeypatch)
    with pytest.raises(AirflowRescheduleException):
        alone.resume_execution("__fail__", {"error": "Trigger timeout"}, context)
    with pytest.raises(AirflowRescheduleException):
        alone.awake({**context, "task_reschedule_count": 1})

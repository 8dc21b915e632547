"""Nothing runs before the first time that lies ahead, and a missed time is let pass."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowSkipException
from airflow.serialization.serialized_objects import DagSerialization

from opboost_ops.orchestration.dags import tasks
from opboost_ops.orchestration.dags.times import missed
from tests.dags.conftest import declare, in_task

NOON = datetime(2026, 6, 10, 12, tzinfo=UTC)
NIGHT = {"schedule": {"cron": "0 3 * * *"}}
LOOKED = {"schedule": {"cron": "0 3 * * *", "on_tables": "0 4 * * *"}}
BROKEN = {**NIGHT, "training": {"tress": 1}}
SCORED = {"scoring": {"cron": "0 5 * * *"}}


def next_run(dag: DAG, now: datetime, patch: pytest.MonkeyPatch) -> datetime | None:
    """When Airflow's scheduler would make the first run of a DAG, as it reads it from storage."""
    stored = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    patch.setattr("airflow.timetables.trigger.utcnow", lambda: now)
    found = stored.next_dagrun_info(last_automated_run_info=None)
    return None if found is None else found.run_after


@pytest.mark.parametrize("change", [NIGHT, LOOKED, {**LOOKED, **SCORED}, BROKEN])
def test_the_first_run_is_for_a_time_that_lies_ahead(
    federations: Path, monkeypatch: pytest.MonkeyPatch, change: Any
) -> None:
    dags = declare(federations, **change)
    found = {name: next_run(dag, NOON, monkeypatch) for name, dag in dags.items()}
    timed = [at for at in found.values() if at is not None]
    assert timed
    assert all(NOON < at <= NOON + timedelta(days=1) for at in timed)
    # Read again just after its time has come, the first run is not put off by a day.
    at = found["credit_scoring_train"]
    assert at is not None
    assert next_run(dags["credit_scoring_train"], at + timedelta(seconds=20), monkeypatch) == at


def late(hours: float, **changes: Any) -> dict[str, Any]:
    """What is of a run that begins so many hours after its time."""
    due = datetime(2026, 6, 10, 3, tzinfo=UTC)
    fields = {"run_after": due, "start_date": due + timedelta(hours=hours), "clear_number": 0}
    return {"run_type": "scheduled", **fields, **changes}


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (late(0.1), False),
        (late(0.9), False),
        (late(1.1), True),
        (late(300), True),
        (late(300, run_type="manual"), False),
        (late(300, run_type="asset_triggered"), False),
        (late(300, clear_number=1), False),
    ],
)
def test_a_run_that_begins_too_late_was_missed(run: Any, expected: bool) -> None:
    assert bool(missed(SimpleNamespace(**run))) == expected


def test_a_missed_night_publishes_nothing(
    good_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(good_file.parent, tmp_path / "credit"))
    monkeypatch.setenv("OPBOOST_SITE_CREDIT", str(folder / "credit" / "site.yaml"))
    in_task(monkeypatch, **late(6))
    exchange = folder / "exchange"
    before = set(exchange.rglob("*"))
    with pytest.raises(AirflowSkipException, match=r"due at 2026-06-10 03:00 UTC.*Trigger"):
        tasks.open_run(str(folder / "federation.yaml"), "train")
    assert set(exchange.rglob("*")) == before
    # In a DAG of people's own it is their affair.
    assert tasks.open_run(str(folder / "federation.yaml"), "train", form={})["run"]
    assert set(exchange.rglob("*")) > before


def test_a_missed_look_at_a_table_tells_of_no_change(
    good_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(good_file.parent, tmp_path / "credit"))
    monkeypatch.setenv("OPBOOST_SITE_BANK", str(folder / "bank" / "site.yaml"))
    in_task(monkeypatch, **late(6))
    with pytest.raises(AirflowSkipException, match="was due"):
        tasks.check_table("bank", "credit_scoring", "train")
    in_task(monkeypatch, **late(6, clear_number=1))
    assert tasks.check_table("bank", "credit_scoring", "train") == {"changed": True}

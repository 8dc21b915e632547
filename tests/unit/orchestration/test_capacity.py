"""A queue without a worker is known where Airflow knows its workers; elsewhere it stops nothing."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from airflow.providers.edge3.models import edge_worker as models
from sqlalchemy.orm import Session

from opboost_ops.orchestration.capacity import queue_problems

EDGE = "airflow.providers.edge3.executors.EdgeExecutor"


@pytest.fixture
def session() -> Iterator[Session]:
    engine = sa.create_engine("sqlite://")
    models.EdgeWorkerModel.__table__.create(engine)
    with Session(engine) as found:
        yield found


def worker(session: Session, name: str, minutes: float, queues: list[str] | None) -> None:
    heard = datetime.now(UTC) - timedelta(minutes=minutes)
    row = models.EdgeWorkerModel(name, "idle", queues, first_online=heard, last_update=heard)
    row.concurrency = 1
    session.add(row)
    session.flush()


def test_queues_of_which_no_worker_was_heard(session: Session) -> None:
    worker(session, "bank", 1, ["bank_queue"])
    worker(session, "shop", 45, ["shop_queue"])
    wanted = {"bank_queue", "shop_queue", "credit_queue"}
    (problem,) = queue_problems(session, EDGE, wanted)
    assert "No worker listens to the queue credit_queue, shop_queue." in problem


def test_one_that_starts_anew_or_takes_from_all_stops_nothing(session: Session) -> None:
    worker(session, "bank", 6, ["bank_queue"])
    assert queue_problems(session, EDGE, {"bank_queue"}) == []
    worker(session, "any", 0, None)
    assert queue_problems(session, EDGE, {"bank_queue", "shop_queue"}) == []


def test_elsewhere_it_cannot_be_known(session: Session) -> None:
    for executors in ("LocalExecutor", "CeleryExecutor", f"LocalExecutor,{EDGE}"):
        assert queue_problems(session, executors, {"bank_queue"}) == []

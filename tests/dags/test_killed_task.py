"""A task that runs several stages names the one that fails."""

from typing import Any

import pytest

from opboost_ops.exchange.manifest import run_id
from opboost_ops.orchestration.dags import run_notes, tasks
from opboost_ops.pipeline.phases import stages_by_task
from tests.dags.conftest import DAG_ID, RUN, in_task
from tests.federation import Workspace

PLACE = ("credit_scoring", "credit")


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What tasks of this process leave in XCom."""
    return in_task(monkeypatch)


def test_a_task_stops_at_the_first_stage_that_fails_and_names_it(
    workspace: Workspace, left: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.run = run_id(DAG_ID, RUN)
    workspace.known_to(monkeypatch)
    workspace.until("check_table", "bank")
    stages = stages_by_task(workspace.declared, "train")["bank_release.desensitize"]
    (workspace.folder / "bank" / "tables" / "train.parquet").rename(workspace.folder / "away")
    with pytest.raises(run_notes.TaskFailedError) as caught:
        tasks.run_stages("bank", stages, *PLACE)
    assert caught.value.stage == "digest_ids"
    assert left["failure"]["stage"] == "digest_ids"
    assert set(left) == {"failure"}

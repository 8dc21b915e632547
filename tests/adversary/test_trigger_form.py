"""What Airflow hands to a party's tasks, a form or XCom: it opens what was agreed, or nothing."""

import json
from typing import Any

import pytest

from opboost_ops.errors import ConfigError, OpBoostError
from opboost_ops.run.inbox import Run
from opboost_ops.run.runner import run_stage
from tests.federation import Workspace

HUGE = 10**30


@pytest.mark.parametrize(
    "form",
    [
        {"trees": HUGE},
        {"trees": -1},
        {"trees": float("nan")},
        {"trees": "<script>alert(1)</script>"},
        {"trees": "{{ var.value.secret }}"},
        {"trees": {"a": [1]}},
        {"epsilon": float("inf")},
        {"epsilon": 0},
        {"epsilon": "0.64; DROP TABLE releases"},
        {"weight_column": "secret_salary"},
        {"holdout": {"column": "secret_salary"}},
        {"parties": {}},
        {"version": "../../etc/passwd"},
        {"reference": "../../etc/passwd"},
        {"../../x": 1},
        {"__class__": "x"},
    ],
    ids=str,
)
def test_a_hostile_form_opens_nothing(form: dict[str, Any], workspace: Workspace) -> None:
    with pytest.raises(OpBoostError) as refused:
        workspace.open(form)
    assert not workspace.published()
    assert "Traceback" not in str(refused.value) and len(json.dumps(str(refused.value))) < 2000


def test_a_changed_list_of_files_writes_nowhere(workspace: Workspace) -> None:
    """The numbers of a table's files come from XCom, which the coordinator's database holds."""
    workspace.edit_yaml("federation.yaml", lambda d: d["parties"]["bank"].update(shards=True))
    workspace.until("preprocess")
    run = Run("credit_scoring", workspace.run, "credit")
    for shard in ("../../../../escape", "/tmp/escape", [0], True, 0.5, {}):
        with pytest.raises(ConfigError, match="no such shard"):
            run_stage("bank", "preprocess", run, shard)  # type: ignore[arg-type]
    assert not list(workspace.folder.rglob("*escape*"))

"""What Airflow hands to a party's tasks, a form or XCom: it opens what was agreed, or nothing."""

import json
from typing import Any

import pytest

from opboost_ops.errors import OpBoostError
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

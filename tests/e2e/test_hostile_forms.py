"""Anyone who may trigger a run in Airflow sends what they like by its API: it decides nothing."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from opboost_ops.orchestration.deployment.client import Client
from opboost_ops.orchestration.deployment.standalone import Standalone
from tests.waiting import ended, errors, states

pytestmark = pytest.mark.slow

DAG = "credit_scoring_train"
#: What no task may compute, were it taken for a template.
TEMPLATE, COMPUTED = "{{ 6007 * 7001 }}", "42055007"
FORMS: tuple[dict[str, Any], ...] = (
    {"trees": TEMPLATE},
    {"trees": 10**30},
    {"trees": [1]},
    {"trees": {"a": 1}},
    {"trees": True},
    {"depth": "x" * 100_000},
    {"learning_rate": "nan"},
    {"denoise": TEMPLATE},
    {"epsilon": "0.64; DROP TABLE releases"},
    {"epsilon": 0.123},
    {"parameters": {"output_model": "/tmp/escape"}},
    {"parameters": {"num_leaves": TEMPLATE}},
    {"parameters": {TEMPLATE: TEMPLATE}},
    {"weight_column": "secret_salary"},
    {"federation": "/etc/passwd"},
    {"run_id": "../../escape", "party": "bank"},
    {TEMPLATE: TEMPLATE},
    {"\u001b[2K<script>alert(1)</script>": "x"},
    {"party": "bank", "__class__": {"deep": [[[[[[1]]]]]]}},
)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: json.dumps(form)[:40])
def test_a_hostile_form_opens_nothing(
    form: dict[str, Any], client: Client, airflow: Standalone, workspace: Path
) -> None:
    before = set((workspace / "exchange").rglob("*"))
    try:
        run = client.trigger(DAG, form)
    except httpx.HTTPStatusError as refused:
        assert refused.response.status_code in (400, 422)
        return
    assert ended(client, DAG, run) == "failed"
    found = states(client, DAG, run)
    assert set(found.values()) <= {"failed", "upstream_failed", "skipped"}, found
    for task in found:
        where = f"dags/{DAG}/dagRuns/{run}/taskInstances/{task}"
        assert COMPUTED not in json.dumps(client.get(where))
    told = errors(client, DAG, run).values()
    assert told and all(0 < len(text) < 2048 for text in told)
    assert set((workspace / "exchange").rglob("*")) == before
    assert COMPUTED not in json.dumps(client.run(DAG, run))

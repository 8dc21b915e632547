"""The UI as people see it: graph, grid and trigger form, in a headless Chromium."""

from pathlib import Path
from typing import Any

import pytest

from opboost_ops.cli.airflow import follow
from opboost_ops.config.loading import load_federation
from opboost_ops.orchestration.deployment.client import Client
from opboost_ops.orchestration.deployment.standalone import Standalone
from opboost_ops.pipeline.phases import phases
from tests.browser import shot

pytestmark = pytest.mark.slow

DAG = "credit_scoring_train"

#: Milliseconds for what a busy machine draws late.
PATIENCE = 60_000


def groups_of(file: Path) -> list[str]:
    """What the task groups of a training are called: one for each party in each phase."""
    federation = load_federation(file)
    return [
        f"{party}: {phase.title}"
        for phase in phases(federation, "train")
        for party in phase.parties(federation)
    ]


def names_in(nodes: Any) -> list[str]:
    """The names that a graph's nodes show, in the alphabet's order."""
    return sorted(text.partition("\n")[0] for text in nodes.all_inner_texts())


def test_graph_and_grid_of_a_finished_run(
    page: Any, airflow: Standalone, client: Client, workspace: Path
) -> None:
    follow(airflow, client, workspace / "federation.yaml", lambda *_: None)
    run = client.get(f"dags/{DAG}/dagRuns", order_by="-id")["dag_runs"][0]["dag_run_id"]
    page.goto(f"{airflow.url}/dags/{DAG}")
    text = shot(page, "dag")
    assert DAG in text
    page.goto(f"{airflow.url}/dags/{DAG}/runs/{run}")
    for label in ("credit: open run", "bank: protected release", "credit: model"):
        page.get_by_text(label).first.wait_for(timeout=PATIENCE)
    shot(page, "run-grid")
    page.get_by_role("button", name="Show Graph").click()
    groups = groups_of(workspace / "federation.yaml")
    nodes = page.locator(".react-flow__node")
    nodes.nth(len(groups) - 1).wait_for(timeout=PATIENCE)
    shot(page, "run-graph")
    assert names_in(nodes) == sorted(groups)
    page.get_by_role("button", name="Expand all task groups").click()
    tasks = client.get(f"dags/{DAG}/tasks")["tasks"]
    every = sorted([*groups, *(task["task_id"].partition(".")[2] for task in tasks)])
    nodes.nth(len(every) - 1).wait_for(timeout=PATIENCE)
    assert names_in(nodes) == every
    shot(page, "run-graph-open")


def test_the_trigger_form(page: Any, airflow: Standalone, client: Client) -> None:
    dialog = opened_form(page, airflow)
    text = shot(page, "form")
    for label in ("Trees", "Learning rate", "Depth of a tree"):
        assert label in text
    assert "Declared: 20. Empty: as declared." in text
    assert "openlineage" not in text
    # Lists offer what is agreed or possible, and nothing else can be typed into them.
    dialog.locator("[id=element_depth]").click()
    options = page.get_by_role("option")
    options.first.wait_for()
    texts = options.all_inner_texts()
    assert texts[0].startswith("as declared") and texts[-1].startswith("16")
    page.keyboard.press("Tab")
    before = client.get(f"dags/{DAG}/dagRuns")["total_entries"]
    for field, nonsense in (
        ("trees", "lots"), ("trees", "1,000"), ("trees", "10001"),
        ("learning_rate", "0,5"), ("learning_rate", "3"),
    ):  # fmt: skip
        dialog = opened_form(page, airflow)
        dialog.locator(f"[name=element_{field}]").fill(nonsense)
        dialog.get_by_role("button", name="Trigger").click()
        dialog.get_by_text(f"Invalid input for param {field}").first.wait_for()
        page.problems.clear()
    assert client.get(f"dags/{DAG}/dagRuns")["total_entries"] == before


def opened_form(page: Any, airflow: Standalone) -> Any:
    """The dialog of the trigger form."""
    page.goto(f"{airflow.url}/dags/{DAG}")
    page.get_by_role("button", name="Trigger").first.click()
    dialog = page.locator("[role=dialog][data-scope=dialog]")
    dialog.locator("[name=element_trees]").wait_for()
    return dialog


def test_the_invalid_dag_and_the_list(page: Any, airflow: Standalone) -> None:
    page.goto(f"{airflow.url}/dags")
    page.get_by_text("broken_train").first.wait_for()
    text = shot(page, "dags")
    assert "invalid" in text
    assert "Dag Import Error" not in text
    page.goto(f"{airflow.url}/dags/broken_train")
    shot(page, "broken")

"""A whole run at outbound-only sites, and what stays at home."""

import pytest

from tests.sites.conftest import PARTIES, Sites
from tests.waiting import until

TRAIN, SCORE = "credit_scoring_train", "credit_scoring_score"


def ended(sites: Sites, dag: str, run: str) -> str:
    """Wait for a run's end; how it ended."""
    until(lambda: sites.client.run(dag, run)["state"] in ("success", "failed"), run, 900)
    state: str = sites.client.run(dag, run)["state"]
    return state


@pytest.mark.deployment
def test_three_sites_train_and_score_and_keep_their_logs(sites: Sites) -> None:
    before = len(sites.processes.output("proxy"))
    run = sites.client.trigger(TRAIN)
    state, tasks = ended(sites, TRAIN, run), sites.client.tasks(TRAIN, run)
    assert state == "success", [(task["task_id"], task["state"]) for task in tasks]
    said = sites.processes.output("proxy")[before:].splitlines()
    assert len(said) > 100
    assert [line for line in said if " 403 " in line] == []
    for task in tasks:
        party = task["task_id"].split("_")[0]
        assert (task["queue"], task["hostname"]) == (f"queue.{party}", party)

    # A failing task: its message stays at home, that it failed does not.
    table = sites.own["shop"].home / "tables" / "train.parquet"
    table.rename(table.with_suffix(".away"))
    run = sites.client.trigger(TRAIN)
    assert ended(sites, TRAIN, run) == "failed"
    table.with_suffix(".away").rename(table)
    failed = [
        task["task_id"] for task in sites.client.tasks(TRAIN, run) if task["state"] == "failed"
    ]
    assert "shop_release.check_table" in failed
    assert "/logs/push/" not in sites.processes.output("proxy")[before:]
    assert list((sites.root / "airflow" / "logs").rglob("attempt=*")) == []
    for party in PARTIES:
        logs = list((sites.own[party].home / "airflow" / "logs").rglob("attempt=*.log"))
        assert logs
        assert {log.stat().st_mode & 0o077 for log in logs} == {0}

    # The champion of the first run has started a scoring run.
    until(lambda: scoring(sites), "a scoring run")
    assert ended(sites, SCORE, scoring(sites)[0]) == "success"


def scoring(sites: Sites) -> list[str]:
    runs = sites.client.get(f"dags/{SCORE}/dagRuns")["dag_runs"]
    return [run["dag_run_id"] for run in runs if run["run_type"] == "asset_triggered"]

"""Three lenders train together and score at home, on a real scheduler."""

from pathlib import Path

import pytest

from opboost_ops.cli.demo import follow
from opboost_ops.config.loading import load_site
from opboost_ops.datasets.lenders import NAME, write_lenders
from opboost_ops.models.registry import Registry
from opboost_ops.orchestration.standalone import Standalone

pytestmark = pytest.mark.deployment


def test_three_parties_train_at_the_same_time(tmp_path: Path) -> None:
    file = write_lenders(tmp_path / "parties", rows=1500, seed=0, training={"trees": 10})
    names = [f"lender_{i:02d}" for i in (1, 2, 3)]
    sites = {name: tmp_path / "parties" / name / "site.yaml" for name in names}
    with Standalone(tmp_path / "airflow", tmp_path / "parties", sites) as airflow:
        client = airflow.client()
        while not client.has_dag(f"{NAME}_train"):
            airflow.check()
        finished = follow(airflow, client, file, lambda party, event: None)
        (run,) = client.get(f"dags/{NAME}_train/dagRuns")["dag_runs"]
        instances = client.tasks(f"{NAME}_train", run["dag_run_id"])
    boosts = [task for task in instances if task["task_id"].endswith(".boost")]
    assert len(boosts) == 3
    assert max(task["start_date"] for task in boosts) < min(task["end_date"] for task in boosts)
    registries = [Registry(load_site(site).models, NAME) for site in sites.values()]
    assert {registry.champion() for registry in registries} == {finished.run}
    assert len({registry.files(finished.run)["model.txt"] for registry in registries}) == 1
    boosted = [finished.summaries[name]["boost"] for name in names]
    assert len({summary["conversation"] for summary in boosted}) == 1
    assert {summary["trees"] for summary in boosted} == {10}

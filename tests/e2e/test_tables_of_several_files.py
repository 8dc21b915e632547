"""Files of a table treated side by side, on a real scheduler; and nothing of them gets out."""

from pathlib import Path

import polars as pl
import pytest
import yaml

from opboost_ops.cli.demo import follow
from opboost_ops.orchestration.standalone import Standalone
from tests.leakage.canaries import NAME, plant

pytestmark = pytest.mark.deployment

FILES = 5


def test_mapped_tasks_on_a_real_scheduler(tmp_path: Path) -> None:
    canaries = plant(tmp_path / "parties")
    path = canaries.root / "shop" / "tables" / "train.parquet"
    table = pl.read_parquet(path)
    path.unlink()
    path.mkdir()
    for number in range(FILES):
        table.gather_every(FILES, number).write_parquet(path / f"{number}.parquet")
    data = yaml.safe_load(canaries.federation.read_text())
    data["parties"]["shop"]["shards"] = True
    canaries.federation.write_text(yaml.safe_dump(data, sort_keys=False))
    events: list[tuple[str, str]] = []
    with Standalone(tmp_path / "airflow", canaries.root, canaries.sites) as airflow:
        client = airflow.client()
        while not client.has_dag(f"{NAME}_train"):
            airflow.check()
        finished = follow(
            airflow,
            client,
            canaries.federation,
            lambda party, event: events.append((event["event"], f"{party}.{event['stage']}")),
        )
        (run,) = client.get(f"dags/{NAME}_train/dagRuns")["dag_runs"]
        instances = client.tasks(f"{NAME}_train", run["dag_run_id"])
    mapped = {(t["task_id"], t["map_index"]) for t in instances if t["map_index"] >= 0}
    stages = ("preprocess", "desensitize")
    # The planted federation has two files at the bank.
    files = {"shop": FILES, "bank": 2}
    assert mapped == {
        (f"{party}_release.desensitize", i) for party, count in files.items() for i in range(count)
    }
    labels = {t["rendered_map_index"] for t in instances if t["map_index"] >= 0}
    assert labels == {f"file {i}" for i in range(FILES)}
    shop, bank = finished.summaries["shop"], finished.summaries["bank"]
    assert shop["list_shards"]["shards"] == shop["merge_shards"]["shards"] == FILES
    # What one file has of the rows is in no XCom.
    assert all(set(shop[stage]) <= {"features", "published"} for stage in stages)
    assert shop["merge_shards"]["rows"] == bank["merge_shards"]["rows"]
    assert events.count(("finished", "shop.preprocess")) == 1
    assert canaries.outside(tmp_path / "airflow") == []

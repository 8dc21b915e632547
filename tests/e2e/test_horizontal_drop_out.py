"""A party's task is killed in mid-session, on a real scheduler: the others end, and say so."""

import os
import signal
from pathlib import Path

import pytest

from opboost_ops.config.loading import load_site
from opboost_ops.datasets.lenders import NAME, write_lenders
from opboost_ops.exchange.books import open_books
from opboost_ops.exchange.run_id import run_id
from opboost_ops.models.registry import Registry
from opboost_ops.orchestration.standalone import Standalone
from tests.waiting import until

pytestmark = pytest.mark.slow

TRAIN = f"{NAME}_train"
PRIVATE = {"epsilon": 8.0, "delta": 1e-4, "remain": 3, "patience_minutes": 0.3}
TRAINING = {"trees": 600, "depth": 2, "wait_minutes": 4, "private": PRIVATE}


def test_a_task_that_is_killed_drops_out_and_reads_the_model_when_it_is_cleared(
    tmp_path: Path,
) -> None:
    write_lenders(tmp_path / "parties", parties=4, rows=1200, training=TRAINING)
    names = [f"lender_{i:02d}" for i in (1, 2, 3, 4)]
    sites = {name: tmp_path / "parties" / name / "site.yaml" for name in names}
    gone, task = names[3], f"{names[3]}_learn.boost"
    registries = {name: Registry(load_site(site).models, NAME) for name, site in sites.items()}
    # All parties' tasks run at the same time, and a killed one's place is not free at once.
    more = {"AIRFLOW__CORE__PARALLELISM": "8"}
    with Standalone(tmp_path / "airflow", tmp_path / "parties", sites, environment=more) as airflow:
        client = airflow.client()
        until(lambda: client.has_dag(TRAIN), "the DAG")
        run = client.trigger(TRAIN)
        version = run_id(TRAIN, run)
        decided = tmp_path / "parties" / "exchange" / NAME / version / "decision" / names[0]
        until(lambda: (decided / "trees-00020-00").exists(), "the third round", 240)
        # Its process dies; and so that no second try comes, nobody wants it any more.
        place = f"dags/{TRAIN}/dagRuns/{run}/taskInstances/{task}"
        os.kill(client.get(place)["pid"], signal.SIGKILL)
        # Not before Airflow knows: what it then writes, a second try, would win over the wish.
        until(lambda: client.get(place)["state"] == "up_for_retry", "word of the death", 60)
        client.http.patch(f"/api/v2/{place}", json={"new_state": "failed"}).raise_for_status()
        until(lambda: client.run(TRAIN, run)["state"] in ("success", "failed"), "the end", 300)
        states = {each["task_id"]: each["state"] for each in client.tasks(TRAIN, run)}
        failed = {name for name, state in states.items() if state != "success"}
        later = ("check_model", "register")
        assert failed == {task, *(f"{gone}_learn.{stage}" for stage in later)}, states
        ended = client.run(TRAIN, run)
        assert ended["state"] == "success"
        assert f"Went on without **{gone}** (boost has failed)" in ended["note"]
        for name in names[:3]:
            said = client.summary(TRAIN, run, f"{name}_learn.boost", "boost")
            assert said["parties"] == {"declared": 4, "remained": 3}
        models = {registries[name].file(version, "model.txt") for name in names[:3]}
        assert len(models) == 1 and version not in registries[gone].versions()
        # It may have sent sums, so it is charged like all.
        curves = set()
        for site in sites.values():
            with open_books(load_site(site)) as books:
                lines = [line for line in books.ledger.releases() if line.account == "model"]
            assert len(lines) == 1
            curves.add(str(lines[0].curve))
        assert len(curves) == 1
        # Cleared, it listens: the same model, and nothing more is sent or charged.
        store = tmp_path / "parties" / "exchange" / NAME / version
        sent = {path for path in store.rglob("*") if gone in path.parts}
        cleared = {
            "dry_run": False, "dag_run_id": run, "task_ids": [task], "only_failed": False,
            "include_downstream": True, "reset_dag_runs": True,
        }  # fmt: skip
        client.http.post(
            f"/api/v2/dags/{TRAIN}/clearTaskInstances", json=cleared
        ).raise_for_status()
        until(lambda: client.run(TRAIN, run)["state"] != "success", "the run to go on", 60)
        until(lambda: client.run(TRAIN, run)["state"] in ("success", "failed"), "the end", 240)
        ended = client.run(TRAIN, run)
        assert ended["state"] == "success"
        assert ended["note"].startswith("All parties have the model")
    assert {registry.file(version, "model.txt") for registry in registries.values()} == models
    assert {path for path in store.rglob("*") if gone in path.parts} == sent

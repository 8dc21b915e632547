"""Changed tables train, a promotion scores, and a model that got worse starts nothing."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.feather as feather
import pytest

from opboost_ops.exchange.manifest import run_id
from opboost_ops.learning.registry.registry import Registry
from opboost_ops.orchestration.deployment.client import Client
from opboost_ops.orchestration.deployment.standalone import Standalone
from tests.federation import Workspace, small_credit
from tests.waiting import ended, states, until

pytestmark = pytest.mark.slow

NAME = "credit_scoring"
TRAIN, SCORE, TABLES = f"{NAME}_train", f"{NAME}_score", f"{NAME}_tables"
PARTIES = ("credit", "shop", "bank")


@pytest.fixture(scope="module")
def bank_and_co(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Little noise and many trees: anyone who learns from shuffled labels is seen to be worse."""
    workspace = Workspace.write(
        tmp_path_factory.mktemp("unattended") / "credit",
        small_credit(rows=1500),
        seed=None,
        epsilon=20,
        training={"trees": 20, "depth": 3},
    )
    # Looked at by hand below; by itself on the first of January alone.
    schedule = {"on_tables": "0 0 1 1 *"}
    workspace.declare("federation.yaml", schedule=schedule)
    return workspace


@pytest.fixture(scope="module")
def client(bank_and_co: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    sites = {party: bank_and_co.folder / party / "site.yaml" for party in PARTIES}
    home = tmp_path_factory.mktemp("airflow")
    with Standalone(home, bank_and_co.folder, sites) as running:
        client = running.client()
        for dag in (TRAIN, SCORE, TABLES):
            while not client.has_dag(dag):
                running.check()
        yield client


def runs(client: Client, dag: str) -> list[dict[str, Any]]:
    """Runs of a DAG that nobody triggered, oldest first."""
    found = client.get(f"dags/{dag}/dagRuns", limit=100)["dag_runs"]
    unasked = [run for run in found if run["run_type"] == "asset_triggered"]
    return sorted(unasked, key=lambda run: run["run_after"])


def begun(client: Client, dag: str, number: int, patience: float = 180) -> str:
    """Wait for so many runs that nobody triggered, and for the last one to end; its id."""
    until(lambda: len(runs(client, dag)) >= number, f"run {number} of {dag}", patience)
    run = str(runs(client, dag)[-1]["dag_run_id"])
    assert ended(client, dag, run, patience) == "success", client.tasks(dag, run)
    assert len(runs(client, dag)) == number
    return run


def look(client: Client) -> set[str]:
    """Let all parties look at their tables now; whose training table has changed."""
    run = client.trigger(TABLES)
    assert ended(client, TABLES, run, 120) == "success", client.tasks(TABLES, run)
    changed = (task for task, state in states(client, TABLES, run).items() if state == "success")
    return {task.partition("_")[0] for task in changed if task.endswith("_table")}


def held_out(workspace: Workspace, version: str) -> list[str]:
    """IDs of the people on whom a version was judged; a keyed hash of the ID alone decides it."""
    home = Workspace(workspace.folder, version).home("credit")
    rows = json.loads((home / "alignment.json").read_bytes())["holdout"]
    positions = feather.read_table(home / "alignment.arrow").column("position").to_numpy()
    ids = pl.read_parquet(workspace.folder / "credit" / "tables" / "train.parquet")["id"]
    return [str(ids[int(position)]) for position in positions[-rows:]]


def score_files(workspace: Workspace) -> list[Path]:
    return sorted((workspace.folder / "credit" / "scores").rglob("*.parquet"))


def test_from_changed_tables_to_scores_without_a_hand(
    client: Client, bank_and_co: Workspace
) -> None:
    # The first look, which may be Airflow's own, finds all tables new: they train, and the new
    # champion scores; so do the tables of new rows, perhaps in a run of their own.
    look(client)
    training = begun(client, TRAIN, 1)
    assert set(states(client, TRAIN, training).values()) == {"success"}
    champion = client.summary(TRAIN, training, "credit_publish.announce_champion")["version"]
    registry = Registry(bank_and_co.folder / "credit" / "models", NAME)
    assert registry.champion() == champion
    until(lambda: score_files(bank_and_co), "scores", 180)
    (path,) = score_files(bank_and_co)
    assert path.parent.name == champion
    people = [
        set(pl.read_parquet(bank_and_co.folder / party / "tables" / "score.parquet")["id"])
        for party in PARTIES
    ]
    assert set(pl.read_parquet(path)["id"]) == set.intersection(*people)
    # Whatever began before there was a champion failed and said so; nothing runs any more.
    found = [ended(client, SCORE, run["dag_run_id"], 180) for run in runs(client, SCORE)]
    assert found[-1] == "success", runs(client, SCORE)


def test_a_model_that_got_worse_is_not_announced_and_scores_nothing(
    client: Client, bank_and_co: Workspace
) -> None:
    registry = Registry(bank_and_co.folder / "credit" / "models", NAME)
    before = (registry.champion(), score_files(bank_and_co), len(runs(client, SCORE)))
    trained = len(runs(client, TRAIN))
    # Labels are turned round where the model learns, and not where it is judged: if both were,
    # the champion would be as bad on these rows, and the new model as good.
    judged = held_out(bank_and_co, str(before[0]))
    turned = pl.when(pl.col("id").is_in(judged)).then("default").otherwise(1 - pl.col("default"))
    assert look(client) == set()
    bank_and_co.edit_table("credit", lambda t: t.with_columns(turned.alias("default")).reverse())
    assert look(client) == {"credit"}
    # A feature holder's table has changed when somebody joins it: its values are not looked at.
    for party in ("shop", "bank"):
        assert len(runs(client, TRAIN)) == trained, "it begins when all tables have changed"
        bank_and_co.let_join(party)
        assert look(client) == {party}
    training = begun(client, TRAIN, trained + 1)
    found = states(client, TRAIN, training)
    assert found.pop("credit_publish.announce_champion") == "skipped"
    assert set(found.values()) == {"success"}
    assert "gate rejected" in client.run(TRAIN, training)["note"]
    summary = client.summary(TRAIN, training, "credit_publish.register")
    assert summary["champion"] is False
    # Why, the label holder's own people alone read.
    assert "shown to be worse" not in summary["why"]
    home = bank_and_co.folder / "credit" / "home" / NAME / run_id(TRAIN, training)
    told = json.loads((home / "summaries" / "register.json").read_bytes())
    assert "shown to be worse" in told["why"]
    assert registry.history()[-1].event == "kept"
    # What is promoted starts a scoring within a second or two: wait for much longer.
    time.sleep(10)
    assert (registry.champion(), score_files(bank_and_co), len(runs(client, SCORE))) == before

"""Two Airflows that share nothing but the store: the label holder's, and the others'."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from pydantic import TypeAdapter

from opboost_ops.config.loading import load_site
from opboost_ops.exchange.manifest import JOINED, run_id
from opboost_ops.extras.datasets import lenders, load
from opboost_ops.extras.datasets.workspace import write_workspace
from opboost_ops.learning.registry.registry import Registry
from opboost_ops.orchestration.deployment.client import Client
from opboost_ops.orchestration.deployment.standalone import Standalone
from tests.waiting import ended, errors, until

pytestmark = pytest.mark.deployment

NAME = "credit_scoring"
TRAIN, SCORE = f"{NAME}_train", f"{NAME}_score"
#: By Airflow.
OPENS = ("credit", "lender_01")
JOINS = ("shop", "bank", "lender_02", "lender_03")


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every party's site; a vertical federation, and a horizontal one."""
    folder = tmp_path_factory.mktemp("parties")
    dataset = load("credit", rows=1000)
    write_workspace(dataset, folder / "credit", seed=0, training={"trees": 10})
    lenders.write_lenders(folder / "lenders", rows=900, seed=0, training={"trees": 4})
    files = ("credit", "credit", "credit", "lenders", "lenders", "lenders")
    names = ("credit", "shop", "bank", "lender_01", "lender_02", "lender_03")
    return {
        name: folder / file / name / "site.yaml" for file, name in zip(files, names, strict=True)
    }


@pytest.fixture(scope="module")
def federations(sites: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("federations")
    for party, name in (("credit", "credit"), ("lender_01", "lenders")):
        file = sites[party].parents[1] / "federation.yaml"
        (folder / f"{name}.yaml").write_text(file.read_text())
    return folder


@pytest.fixture(scope="module")
def airflows(
    sites: dict[str, Path], federations: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Standalone, Standalone]]:
    home = tmp_path_factory.mktemp("airflows")

    def one(name: str, parties: tuple[str, ...]) -> Standalone:
        own = {party: sites[party] for party in parties}
        return Standalone(home / name, federations, own, parties=parties)

    with one("opens", OPENS) as opens:
        opens.client()
        # One after the other: each has so long to come up.
        with one("joins", JOINS) as joins:
            joins.client()
            yield opens, joins


@pytest.fixture(scope="module")
def opens(airflows: tuple[Standalone, Standalone]) -> Client:
    client = airflows[0].client()
    for dag in (TRAIN, SCORE, "lenders_train"):
        until(lambda dag=dag: client.has_dag(dag), f"the DAG {dag}")
    return client


@pytest.fixture(scope="module")
def joins(airflows: tuple[Standalone, Standalone]) -> Client:
    client = airflows[1].client()
    for dag in (TRAIN, SCORE, f"{NAME}_join", "lenders_join", "lenders_train", "lenders_score"):
        until(lambda dag=dag: client.has_dag(dag), f"the DAG {dag}")
    return client


def runs(client: Client, dag: str) -> dict[str, str]:
    """States of a DAG's runs by their ids."""
    found = client.get(f"dags/{dag}/dagRuns", limit=100)["dag_runs"]
    return {run["dag_run_id"]: str(run["state"]) for run in found}


def both(opens: Client, joins: Client, dag: str, run: str) -> str:
    """The id of a run that has ended well in both Airflows."""
    same = run_id(dag, run)
    for client, name in ((opens, run), (joins, f"{JOINED}{same}")):
        assert ended(client, dag, name, 600) == "success", errors(client, dag, name)
    return same


def champion(sites: dict[str, Path], party: str, federation: str = NAME) -> str | None:
    return Registry(load_site(sites[party]).models, federation).champion()


def test_the_others_join_a_training_run_and_the_scoring_after_it(
    opens: Client, joins: Client, sites: dict[str, Path]
) -> None:
    run = opens.trigger(TRAIN)
    trained = both(opens, joins, TRAIN, run)
    assert champion(sites, "credit") == trained
    scoring = until(lambda: list(runs(opens, SCORE)), "a run of scoring")
    both(opens, joins, SCORE, scoring[0])
    assert list(sites["credit"].parent.glob(f"scores/{NAME}/**/*.parquet"))
    # Each Airflow has the tasks of its own parties, and each ran once.
    here = {task["task_id"].partition("_")[0] for task in joins.tasks(TRAIN, f"{JOINED}{trained}")}
    assert here == {"shop", "bank"}
    assert set(runs(joins, TRAIN)) == {f"{JOINED}{trained}"}


def test_horizontal_learning_meets_in_its_rounds(
    opens: Client, joins: Client, sites: dict[str, Path]
) -> None:
    trained = both(opens, joins, "lenders_train", opens.trigger("lenders_train"))
    found = {champion(sites, f"lender_0{i}", "lenders") for i in (1, 2, 3)}
    assert found == {trained}
    scoring = until(lambda: list(runs(opens, "lenders_score")), "a run of scoring")
    both(opens, joins, "lenders_score", scoring[0])


def test_a_run_that_failed_is_left_for_the_next_one_and_can_be_cleared(
    opens: Client, joins: Client, sites: dict[str, Path]
) -> None:
    table = sites["credit"].parent / "tables" / "train.parquet"
    table.rename(table.with_suffix(".away"))
    failed = opens.trigger(TRAIN)
    assert ended(opens, TRAIN, failed) == "failed"
    over = f"{JOINED}{run_id(TRAIN, failed)}"
    until(lambda: runs(joins, TRAIN).get(over) == "running", "the joined run to begin")
    table.with_suffix(".away").rename(table)
    trained = both(opens, joins, TRAIN, opens.trigger(TRAIN))
    assert ended(joins, TRAIN, over) == "failed"
    told = errors(joins, TRAIN, over)
    assert any(f"credit has opened run {trained} since" in text for text in told.values()), told
    # Cleared in both, the run that failed is completed: it is the same one.
    for client, run in ((opens, failed), (joins, over)):
        client.http.post(
            f"/api/v2/dags/{TRAIN}/dagRuns/{run}/clear",
            json={"dry_run": False, "only_failed": False},
        ).raise_for_status()
    both(opens, joins, TRAIN, failed)
    assert run_id(TRAIN, failed) in Registry(load_site(sites["credit"]).models, NAME).versions()


def test_what_does_not_come_is_said_and_nothing_is_made_of_it(
    opens: Client,
    joins: Client,
    airflows: tuple[Standalone, Standalone],
    sites: dict[str, Path],
    federations: Path,
) -> None:
    before = champion(sites, "credit")
    airflows[1].stop()
    path = federations / "credit.yaml"
    data = yaml.safe_load(path.read_text())
    data["schedule"] = {"timeout_hours": 0.01}
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    # 0.01 hours, and the 900 s by which a run may outlast its tasks: "PT936S", or "PT15M36S".
    timeout = TypeAdapter(timedelta)
    until(
        lambda: (
            timeout.validate_python(opens.get(f"dags/{TRAIN}/details")["dag_run_timeout"])
            == timedelta(seconds=936)
        ),
        "the file to be read again",
    )
    run = opens.trigger(TRAIN)
    assert ended(opens, TRAIN, run) == "failed"
    told = errors(opens, TRAIN, run)
    assert set(told) == {"credit_train.wait_for_psi_answer"}
    (text,) = told.values()
    assert text.startswith("credit has waited for")
    assert "psi_answer of shop" in text and "psi_answer of bank" in text
    assert "in the 0.01 hours of run" in text
    store = sites["credit"].parents[1] / "exchange" / NAME / run_id(TRAIN, run)
    assert sorted(path.name for path in store.iterdir()) == ["plan", "psi_query"]
    assert champion(sites, "credit") == before

"""Halves: an Airflow has its own parties' tasks alone, and waits where others' come before."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, DagRunTriggerException
from airflow.serialization.serialized_objects import DagSerialization

from opboost_ops.config.federation import Purpose
from opboost_ops.exchange.manifest import JOINED, run_id
from opboost_ops.extras.datasets.generated import write_lenders
from opboost_ops.orchestration.dags import sensors, tasks
from opboost_ops.orchestration.dags.factory import build_dags
from opboost_ops.orchestration.dags.lineage import PARAMETER
from opboost_ops.orchestration.dags.operators import NotReady, StoreSensor
from opboost_ops.orchestration.dags.party_dags import names_in
from tests.dags.conftest import declare, with_mark
from tests.federation import Workspace

NAME = "credit_scoring"
ALL = ("credit", "shop", "bank")
#: Who is in which Airflow.
SPLITS = [
    [("credit",), ("shop",), ("bank",)],
    [("credit",), ("shop", "bank")],
    [("credit", "shop"), ("bank",)],
]


def serialized(dags: Mapping[str, DAG]) -> str:
    # Sets have no order of their own.
    return json.dumps({n: DagSerialization.to_dict(dag) for n, dag in dags.items()}, default=sorted)


def stages(dag: DAG) -> set[str]:
    own = ("join_run", "wait_for_")
    return {name for name in dag.task_ids if not name.partition(".")[2].startswith(own)}


def waits(dag: DAG) -> dict[str, list[str]]:
    return {t.task_id: t.op_kwargs["wanted"] for t in dag.tasks if ".wait_for_" in t.task_id}


@pytest.fixture
def routed(federations: Path) -> Path:
    declare(
        federations,
        scoring={"mode": "routed"},
        schedule={"cron": "0 3 * * *", "on_tables": "*/5 * * * *"},
        parties={"bank": {"queue": "bank_queue"}},
    )
    return federations


def test_whoever_names_all_parties_gets_the_whole(routed: Path) -> None:
    whole = serialized(build_dags(routed))
    assert serialized(build_dags(routed, ALL)) == whole
    assert "wait_for_psi" not in whole and "join_run" not in whole


@pytest.mark.parametrize("split", SPLITS)
def test_halves_are_the_whole_and_each_has_its_own(
    routed: Path, split: list[tuple[str, ...]]
) -> None:
    whole = build_dags(routed)
    halves = [build_dags(routed, here) for here in split]
    for purpose in ("train", "score"):
        name = f"{NAME}_{purpose}"
        parts = [stages(half[name]) for half in halves]
        assert set.union(*parts) == set(whole[name].task_ids)
        assert sum(map(len, parts)) == len(whole[name].task_ids)
        for here, half in zip(split, halves, strict=True):
            dag = half[name]
            assert {t.owner for t in dag.tasks} == set(here)
            assert {"bank_queue"} >= {t.queue for t in dag.tasks if t.owner == "bank"}
            assert {*here, purpose, NAME} <= dag.tags and not dag.tags & ({*ALL} - {*here})
            # The page of the graph needs groups that are acyclic among themselves.
            assert len(dag.task_group.topological_sort()) == len(dag.task_group.children)
            again = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
            assert set(again.task_dict) == set(dag.task_ids)
            # Within an Airflow, nobody is overtaken: what came before comes before.
            for task in dag.tasks:
                before = task.get_flat_relative_ids(upstream=True)
                lost = (
                    whole[name].get_task(task.task_id).get_flat_relative_ids(upstream=True)
                    if task.task_id in whole[name].task_ids
                    else set()
                )
                own = {n for n in lost if n.partition(".")[0].rpartition("_")[0] == task.owner}
                assert own <= before


def test_it_waits_for_what_comes_from_elsewhere_alone(routed: Path) -> None:
    train, score = f"{NAME}_train", f"{NAME}_score"
    alone, mixed = build_dags(routed, ["credit"]), build_dags(routed, ["credit", "shop"])
    bank = build_dags(routed, ["bank"])
    assert waits(mixed[train]) == {
        "credit_train.wait_for_psi_answer": ["psi_answer/bank", "shares/bank", "ranks/bank"],
        "credit_publish.wait_for_split_values": ["split_values/bank"],
        "credit_register.wait_for_routes": ["routes/bank"],
    }
    assert waits(alone[score]) == {
        "credit_score.wait_for_psi_answer": [
            f"{kind}/{party}"
            for party in ("shop", "bank")
            for kind in ("psi_answer", "shares", "routes")
        ],
    }
    assert waits(bank[score]) == {
        "bank_psi.wait_for_psi_query": ["psi_query/bank", "route_request/bank"]
    }
    first = bank[train].get_task("bank_open.join_run")
    assert bank[train].get_task("bank_release.check_table").upstream_task_ids == {first.task_id}
    assert not first.upstream_task_ids


def test_the_label_holders_half_has_schedule_and_form_and_the_others_join(routed: Path) -> None:
    holder, others = build_dags(routed, ["credit"]), build_dags(routed, ["shop", "bank"])
    assert set(holder) == {f"{NAME}_{what}" for what in ("train", "score", "tables", "admin")}
    assert set(others) == {f"{NAME}_{what}" for what in ("train", "score", "join", "admin")}
    assert {t.task_id for t in holder[f"{NAME}_tables"].tasks} == {
        "credit_table",
        "credit_new_rows",
    }
    assert "shop_table" not in serialized(holder)
    assert set(holder[f"{NAME}_train"].params) > {PARAMETER} == set(others[f"{NAME}_train"].params)
    for purpose in ("train", "score"):
        half = others[f"{NAME}_{purpose}"]
        assert half.schedule is None
        assert half.dagrun_timeout > timedelta(hours=12)
    join = others[f"{NAME}_join"]
    assert join.max_active_runs == 1 and join.dagrun_timeout is None
    DagSerialization.deserialize_dag(DagSerialization.serialize_dag(join))
    for dag in (*holder.values(), *others.values()):
        assert dag.doc_md and all(task.doc_md for task in dag.tasks)


def test_horizontal_halves_have_no_waits_but_their_rounds(tmp_path: Path) -> None:
    write_lenders(tmp_path / "lenders", parties=4, rows=80)
    active = build_dags(tmp_path, ["lender_01"])["lenders_train"]
    others = build_dags(tmp_path, ["lender_02", "lender_04"])["lenders_train"]
    assert waits(active) == waits(others) == {}
    assert {t.owner for t in others.tasks} == {"lender_02", "lender_04"}
    boost = others.get_task("lender_04_learn.boost").get_flat_relative_ids(upstream=True)
    assert "lender_04_open.join_run" in boost
    assert not any(name.startswith("lender_02") for name in boost)
    assert others.task_group.topological_sort()


def test_parties_are_names_and_one_that_nobody_knows_is_said(federations: Path) -> None:
    assert names_in(None) is names_in(" ") is None
    assert names_in("bank, shop,") == ("bank", "shop")
    made = build_dags(federations, ["bank", "bnak"])
    assert "invalid" in made["opboost_parties"].tags
    assert "bnak" in made["opboost_parties"].doc_md
    # A federation of others is none of this Airflow's.
    assert set(build_dags(federations, ["somebody"])) == {"opboost_parties"}


class Airflow:
    """One run of one half, whose tasks are run as its scheduler might, by their own functions."""

    def __init__(self, dag: DAG, run: str, patch: pytest.MonkeyPatch) -> None:
        self.dag = dag
        self.run = SimpleNamespace(
            dag_id=dag.dag_id,
            run_id=run,
            run_type="manual",
            conf={},
            start_date=datetime.now(UTC),
        )
        self.done: set[str] = set()
        #: What Airflow would answer when it is asked for failed tasks, or for runs.
        self.count = 0
        self._patch = patch

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        ti = SimpleNamespace(
            dag_id=self.run.dag_id,
            run_id=self.run.run_id,
            task=SimpleNamespace(task_id="join_run", downstream_task_ids={"after"}),
            xcom_push=lambda *_: None,
            get_dr_count=lambda **_: self.count,
            get_ti_count=lambda **_: self.count,
        )
        context = {"dag_run": self.run, "params": {}, "ti": ti}
        with_mark(self._patch)
        for module in (tasks, sensors):
            self._patch.setattr(module, "get_current_context", lambda: context)
        return function(*args, **kwargs)

    def looks(self, sensor: StoreSensor) -> Any:
        """What a sensor's look finds; None where it gives its slot back."""
        try:
            return self.call(sensor.python_callable, **sensor.op_kwargs)
        except NotReady as waits:
            assert 15 <= waits.seconds <= 60
            return None
        except DagRunTriggerException as started:
            return started.trigger_dag_id, started.dag_run_id

    def advance(self) -> bool:
        """Do all that can be done now; whether that was anything."""
        before = len(self.done)
        for task in self.dag.topological_sort():
            if task.task_id in self.done or not task.upstream_task_ids <= self.done:
                continue
            if isinstance(task, StoreSensor) and not self.looks(task):
                continue
            if not isinstance(task, StoreSensor):
                self.call(task.python_callable, **task.op_kwargs)
            self.done.add(task.task_id)
        return len(self.done) > before

    @property
    def ended(self) -> bool:
        return self.done == set(self.dag.task_ids)


def meet(workspace: Workspace, purpose: Purpose, split: Sequence[Sequence[str]], patch: Any) -> str:
    """A run of halves that know of each other by the store alone, each eager in its turn."""
    patch.setattr(sensors, "_POLL_SECONDS", 0)
    dag = f"{NAME}_{purpose}"
    folder = workspace.file.parent
    halves = [build_dags(folder, here)[dag] for here in split]
    opened = f"{purpose} {split}"
    run = run_id(dag, opened)
    airflows = []
    for here, half in zip(split, halves, strict=True):
        name = opened if "credit" in here else f"{JOINED}{run}"
        airflows.append(Airflow(half, name, patch))
    holder = next(one for one in airflows if one.run.run_id == opened)
    holder.call(half_open(holder.dag), str(workspace.file), purpose)
    # Each goes as far as it can before the next one does anything.
    while sum(airflow.advance() for airflow in airflows):
        pass
    assert [airflow.ended for airflow in airflows] == [True] * len(airflows)
    return run


def half_open(dag: DAG) -> Callable[..., Any]:
    return dag.get_task("credit_open.open_run").python_callable


@pytest.mark.slow
def test_halves_meet_at_the_store_in_whatever_order_they_go(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = ["desensitised", "routed"]
    for party in ("shop", "bank"):
        workspace.declare(f"{party}/policy.yaml", scoring=both)
        workspace.allow(party, routed="once")
    workspace.declare("federation.yaml", scoring={"mode": "routed", "evaluate": both})
    trained = meet(workspace, "train", [("credit",), ("shop",), ("bank",)], monkeypatch)
    registry = workspace.registry
    registry.promote(trained, "for the test")
    meet(workspace, "score", [("bank",), ("shop",), ("credit",)], monkeypatch)
    workspace.declare("federation.yaml", scoring={"mode": "desensitised"})
    meet(workspace, "score", [("shop",), ("bank", "credit")], monkeypatch)


def test_a_run_is_looked_for_joined_and_waited_in(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sensors, "_POLL_SECONDS", 0)
    dags = build_dags(workspace.folder, ["bank"])
    (look,) = dags[f"{NAME}_join"].tasks
    join = Airflow(dags[f"{NAME}_join"], "looks", monkeypatch)
    begun = partial(join.looks, look)
    assert begun() is None
    workspace.open()
    name = f"{JOINED}{workspace.run}"
    assert begun() == (f"{NAME}_train", name)
    # Started, and not at its first task yet: Airflow alone knows of it.
    join.count = 1
    assert begun() is None
    join.count = 0

    half = Airflow(dags[f"{NAME}_train"], name, monkeypatch)
    while half.advance():
        pass
    assert begun() is None
    wait = half.dag.get_task("bank_psi.wait_for_psi_query")
    waits = partial(half.looks, wait)
    # What it releases follows from its own table and the plan: it waits for nobody before that.
    release = ("check_table", "desensitize", "check_release")
    assert half.done == {"bank_open.join_run", *(f"bank_release.{stage}" for stage in release)}
    assert waits() is None
    half.count = 1
    with pytest.raises(AirflowFailException, match="failed here, so bank no longer waits"):
        waits()
    half.count = 0
    half.run.start_date -= timedelta(hours=13)
    with pytest.raises(
        AirflowFailException,
        match="psi_query of credit, which did not arrive within the 12 hours of run",
    ):
        waits()
    # By hand, without saying which run.
    half.run.run_id = "manual__x"
    first = half.dag.get_task("bank_open.join_run")
    with pytest.raises(AirflowFailException, match="credit opens the runs of"):
        half.call(first.python_callable, **first.op_kwargs)

"""Nothing that others write is ever a template: rendering would read connections and variables."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.sdk import DAG

from opboost_ops.extras.datasets.generated import write_lenders
from opboost_ops.orchestration.dags.factory import build_dags
from opboost_ops.orchestration.dags.operators import FormOperator
from opboost_ops.orchestration.dags.sensors import CONDITIONS
from opboost_ops.orchestration.dags.task_group import FederationTaskGroup
from opboost_ops.orchestration.dags.triggers import StoreTrigger
from tests.dags.conftest import declare, in_airflow

CANARY = "{{ conn.prod_db.password }}{{ var.value.secret }}{{ canary }}"
PARTIES: tuple[tuple[str, ...] | None, ...] = (
    None,
    ("credit",),
    ("bank",),
    ("shop", "bank"),
    ("lender_01",),
    ("lender_02", "lender_03"),
)


@pytest.fixture
def dags(federations: Path, tmp_path: Path) -> list[DAG]:
    """All DAGs that there are: own and shared Airflows, both kinds of learning, faulty files."""
    declare(
        federations,
        schedule={"on_tables": "0 0 * * *"},
        scoring={"mode": "routed", "evaluate": ["desensitised", "routed"]},
    )
    write_lenders(tmp_path / "lenders", parties=3, rows=60)
    (federations / "lenders.yaml").write_text(
        (tmp_path / "lenders" / "federation.yaml").read_text()
    )
    unknown = build_dags(federations, ["nobody_knows"]).values()
    (federations / "broken.yaml").write_text(yaml.safe_dump({CANARY: CANARY, "name": CANARY}))
    (federations / "rubbish.yaml").write_text(CANARY)
    made = [dag for here in PARTIES for dag in build_dags(federations, here).values()]
    made += build_dags(federations / "gone.yaml").values()
    made += unknown
    for purpose, form in (("train", None), ("train", {"trees": CANARY}), ("score", {})):
        with DAG("mine", schedule=None) as dag:
            FederationTaskGroup(federations / "credit.yaml", purpose, form=form)  # type: ignore[arg-type]
        made.append(dag)
    return made


def test_no_operator_has_a_templated_field_but_the_form_of_a_task_group(dags: list[DAG]) -> None:
    suffixes = {dag.dag_id.rpartition("_")[2] for dag in dags}
    assert suffixes >= {"train", "score", "tables", "admin", "join", "mine", "invalid", "parties"}
    for dag in dags:
        for task in dag.tasks:
            expected = ("form",) if isinstance(task, FormOperator) else ()
            assert tuple(task.template_fields) == expected, (dag.dag_id, task.task_id)
            assert tuple(task.template_ext) == (), (dag.dag_id, task.task_id)
        forms = [task.task_id for task in dag.tasks if isinstance(task, FormOperator)]
        opening = [name for name in dag.task_ids if name.endswith("open_run")]
        assert forms == (opening if dag.dag_id == "mine" else [])
        # A name that ends so is read as a file.
        assert not any((thing.doc_md or "").endswith(".md") for thing in (dag, *dag.tasks))


def filled(value: Any) -> Any:
    """The value with the canary for every text in it."""
    if isinstance(value, str | Path):
        return CANARY
    if isinstance(value, dict):
        return {name: filled(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(filled(item) for item in value)
    return value


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts(item)


class Canary:
    """A connection or variable, which a template reads by its text."""

    def __str__(self) -> str:
        return "RENDERED"

    def __getattr__(self, name: str) -> "Canary":
        return self


def rendered(task: Any) -> set[str]:
    """The fields in which a template was rendered, once each holds one."""
    task = copy.copy(task)
    for name in ("op_kwargs", "form", "doc_md", "queue", "pool", "owner"):
        if name in vars(task):
            object.__setattr__(task, name, filled(getattr(task, name)))
    task.render_template_fields(dict.fromkeys(("conn", "var", "canary"), Canary()))
    own = {name: value for name, value in vars(task).items() if not name.startswith("_")}
    return {name for name, value in own.items() if any("RENDERED" in text for text in texts(value))}


def test_a_canary_in_every_field_is_rendered_in_the_form_alone(dags: list[DAG]) -> None:
    fields = {
        (dag.dag_id, task.task_id, field)
        for dag in dags
        for task in dag.tasks
        for field in rendered(task)
    }
    assert fields == {("mine", "credit_scoring_train.credit_open.open_run", "form")}


def test_a_trigger_renders_nothing(dags: list[DAG]) -> None:
    for condition in CONDITIONS:
        trigger = StoreTrigger(condition, {"party": CANARY}, 0.0)
        assert tuple(trigger.template_fields) == ()
    fields = {field for dag in dags for task in dag.tasks for field in task.template_fields}
    assert {"condition", "arguments", "started"}.isdisjoint(fields)


_RUN = """
import json, sys, time
from airflow.dag_processing.dagbag import DagBag
from airflow.models.renderedtifields import RenderedTaskInstanceFields
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import select
sleep = time.sleep; time.sleep = lambda seconds: sleep(min(seconds, 0.01))
run = DagBag().dags[sys.argv[1]].test()
print(run.state)
with create_session() as session:
    print(session.execute(select(XComModel.key, XComModel.value)).all())
    print(session.execute(select(RenderedTaskInstanceFields.rendered_fields)).all())
"""


@pytest.mark.slow
def test_a_faulty_file_reads_no_connection_and_no_variable(
    federations: Path, tmp_path: Path
) -> None:
    """An unknown key of a partner's stood for a password in log and XCom."""
    path = federations / "credit.yaml"
    path.write_text(f"{path.read_text()}\n'{CANARY[:-12]}': 1\n")
    home = tmp_path / "airflow"
    (home / "dags").mkdir(parents=True)
    (home / "dags" / "federations.py").write_text(
        "from opboost_ops.orchestration.dags.factory import federation_dags\n"
        "from airflow.sdk import DAG\n"
        "globals().update(federation_dags())\n"
    )
    environment = {
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "OPBOOST_FEDERATIONS": str(federations),
        "AIRFLOW_CONN_PROD_DB": "postgres://somebody:dont-show-me@db/x",
        "AIRFLOW_VAR_SECRET": "nor-me",
    }
    in_airflow(home, "-m", "airflow", "db", "migrate", **environment)
    told = in_airflow(home, "-c", _RUN, "credit_scoring_train", **environment)
    told += "".join(
        file.read_text(errors="replace") for file in home.rglob("*.log") if file.is_file()
    )
    assert "failed" in told and "conn.prod_db.password" in told
    assert "dont-show-me" not in told and "nor-me" not in told

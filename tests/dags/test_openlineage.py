"""Nothing of ours becomes lineage, and everybody else's does: judged by the real provider."""

import json
import tomllib
from pathlib import Path

import pytest

from tests.dags.conftest import ROOT, in_airflow

#: Makes the DAGs of a folder and one of somebody's own, and asks the provider of each of them, as
#: it is built and as the scheduler has it.
_ASK = """
import json, sys
from pathlib import Path

import pytest
from airflow.providers.openlineage.utils.emission_policy import (
    resolve_dag_emission_policy as of_dag, resolve_task_emission_policy as of_task,
)
from airflow.sdk import DAG, task
from airflow.serialization.serialized_objects import DagSerialization
from opboost_ops.orchestration.dags.factory import build_dags
from opboost_ops.orchestration.dags.task_group import FederationTaskGroup

folder = Path(sys.argv[1])
dags = build_dags(folder)
with DAG("mine", schedule=None) as mine:
    @task
    def before(): ...
    try:
        before() >> FederationTaskGroup(folder / "credit.yaml", group_id="credit")
    except Exception as error:
        print(error, file=sys.stderr)
dags["mine"] = mine
sent = {}
for name, dag in dags.items():
    for form in (dag, DagSerialization.from_dict(DagSerialization.to_dict(dag))):
        sent.setdefault(name, []).append(of_dag(name, form).emit)
        for one in form.tasks:
            emits = of_task(one, name, one.task_id).emit
            sent.setdefault(f"{name}.{one.task_id}", []).append(emits)
print(json.dumps([sent, {name: sorted(dag.tags) for name, dag in dags.items()}]))
"""


def asked(federations: Path, tmp_path: Path, **more: str) -> tuple[dict[str, list[bool]], ...]:
    more["AIRFLOW__OPENLINEAGE__TRANSPORT"] = '{"type": "console"}'
    told = in_airflow(tmp_path, "-c", _ASK, federations, **more)
    (found,) = [line for line in told.splitlines() if line.startswith("[{")]
    return (*json.loads(found), told)


@pytest.mark.slow
def test_the_provider_makes_no_event_of_ours_and_all_of_others(
    federations: Path, tmp_path: Path
) -> None:
    (federations / "faulty.yaml").write_text("version: 1\n")
    sent, _, _ = asked(federations, tmp_path)
    on = {name for name, emits in sent.items() if emits == [True, True]}
    assert on == {"mine", "mine.before"}
    off = {name for name, emits in sent.items() if emits == [False, False]}
    assert on | off == set(sent)
    assert {"credit_scoring_train", "credit_scoring_score.credit_open.open_run"} <= off
    assert {"mine.credit.bank_release.check_release", "faulty_train.federation_file"} <= off


@pytest.mark.slow
def test_where_it_would_be_sent_all_the_same_no_dag_of_ours_is_made(
    federations: Path, tmp_path: Path
) -> None:
    locked = [{"scope": {}, "controls": {"emit": True}, "locked": True}]
    policy = json.dumps(locked)
    sent, tags, told = asked(federations, tmp_path, AIRFLOW__OPENLINEAGE__EMISSION_POLICY=policy)
    assert "invalid" in tags["credit_scoring_train"]
    assert "credit_scoring_train.credit_open.open_run" not in sent
    assert "OpenLineage would send events of this federation's tasks." in told


def test_the_package_does_not_bring_the_provider() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert "openlineage" in str(extras.pop("dev"))
    assert "openlineage" not in str([project["dependencies"], extras])

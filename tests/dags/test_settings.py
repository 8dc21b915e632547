"""The section [opboost] of Airflow's configuration, and what Airflow lists of the package."""

import json
import re
import shutil
from pathlib import Path

import jsonschema
import pytest

from opboost_ops.orchestration.settings import get_provider_info
from tests.dags.conftest import ROOT, in_airflow

_SHOW = """
import json, os
from airflow.dag_processing.dagbag import DagBag
dags = sorted(DagBag(os.environ["DAGS"], collect_dags=True).dags)
print(json.dumps([dags, {n: v for n, v in os.environ.items() if n.startswith("OPBOOST_")}]))
"""


def shown(tmp_path: Path, section: str, **more: str) -> list[dict[str, str]]:
    (tmp_path / "airflow.cfg").write_text(f"[opboost]\n{section}")
    told = in_airflow(tmp_path, "-c", _SHOW, **{"DAGS": str(ROOT / "dags"), **more})
    (found,) = [line for line in told.splitlines() if line.startswith("[[")]
    return list(json.loads(found))


def test_the_section_says_what_no_variable_says(federations: Path, tmp_path: Path) -> None:
    section = f"federations = {federations}\nmetrics = on\nsite_bank = /bank/site.yaml\nx = 1\n"
    dags, environment = shown(tmp_path, section, OPBOOST_METRICS="off")
    assert "credit_scoring_train" in dags
    assert environment == {
        "OPBOOST_FEDERATIONS": str(federations),
        "OPBOOST_METRICS": "off",
        "OPBOOST_SITE_BANK": "/bank/site.yaml",
    }


def test_airflow_takes_what_the_package_says_of_itself() -> None:
    import airflow

    schema = Path(airflow.__path__[0]) / "provider_info.schema.json"
    jsonschema.validate(get_provider_info(), json.loads(schema.read_text()))


@pytest.mark.slow
def test_airflow_lists_the_package_and_its_options(tmp_path: Path) -> None:
    for command in (["providers", "list"], ["config", "list", "--section", "opboost"]):
        assert "opboost" in in_airflow(tmp_path, "-m", "airflow", *command)


@pytest.mark.slow
def test_the_documents_expression_makes_the_dags(federations: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "airflow.md").read_text()
    (expression,) = re.findall(r"`(federation_dags\(Path.+?\)\))`", page)
    lines = (
        '"""The DAGs of a federation, for Airflow."""',
        "from pathlib import Path",
        "from opboost_ops.orchestration.dags.factory import federation_dags",
        f"globals().update({expression})",
    )
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "mine.py").write_text("\n".join(lines))
    shutil.copy(federations / "credit.yaml", tmp_path / "dags" / "federation.yaml")
    dags, _ = shown(tmp_path, "", DAGS=str(tmp_path / "dags"))
    assert "credit_scoring_train" in dags

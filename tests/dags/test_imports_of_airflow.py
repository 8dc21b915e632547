"""Of what Airflow does not promise, as little is used as ADR 21 says, and where it says."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from opboost_ops.orchestration.pages import airflow_tables

ROOT = Path(__file__).parents[2]
ADR = ROOT / "docs" / "adr" / "0021-what-airflow-does-not-promise.md"

#: Airflow's public interface, and packages of providers, which have versions of their own.
# The last two are documented names and no modules: a file of settings, a group of entry points.
PROMISED = re.compile(
    r"airflow\.(sdk|sdk\.exceptions|sdk\.log|configuration|listeners|plugins_manager"
    r"|executors\.base_executor|providers\.(standard|openlineage)\..*"
    r"|providers\.openlineage|cfg|plugins)"
)
IMPORTED = re.compile(
    r'^\s*(?:from|import) (airflow(?:\.\w+)+)|"(airflow(?:\.[a-z_0-9]+)+)"', re.MULTILINE
)


def imported() -> set[tuple[str, str]]:
    """Modules of Airflow that are not promised, each with the file that names it."""
    found = set()
    for path in (ROOT / "opboost_ops").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "airflow." not in text:
            continue
        file = str(path.relative_to(ROOT / "opboost_ops"))
        for match in IMPORTED.finditer(text):
            module = match[1] or match[2]
            if not PROMISED.fullmatch(module):
                found.add((module, file))
    return found


def test_what_is_not_promised_is_used_where_the_decision_says_and_nowhere_else() -> None:
    rows = re.findall(r"^\| `([\w/]+\.py)` \| (.+) \|$", ADR.read_text(), re.MULTILINE)
    table = {(module, file) for file, cell in rows for module in re.findall(r"`([\w.]+)`", cell)}
    assert imported() == table
    tables = {file for module, file in table if module in airflow_tables._MODULES.values()}
    assert tables == {"orchestration/pages/airflow_tables.py"}
    elsewhere = {module for module, file in table if file not in tables}
    assert not any(module.startswith(("airflow.models", "airflow.utils")) for module in elsewhere)


def test_each_table_is_where_it_is_looked_for_and_no_other_is() -> None:
    for name, module in airflow_tables._MODULES.items():
        assert getattr(airflow_tables, name) is getattr(import_module(module), name)
    with pytest.raises(AttributeError):
        _ = airflow_tables.Variable

"""What Airflow's own statsd client sends of a run: told by a listener of ours."""

import json
import re
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.execution_time import task_runner
from airflow.sdk.observability.stats import Stats

from opboost_ops.errors import BudgetError, ContractError
from opboost_ops.exchange.manifest import run_id
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.orchestration.dags import tasks
from opboost_ops.orchestration.deployment import metrics
from opboost_ops.pipeline.runner.facts import ADDED
from tests.dags.conftest import DAG_ID, RUN, in_task
from tests.federation import Workspace

ROOT = Path(__file__).parents[2]


class Listener:
    """What comes by UDP on a port of its own."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.settimeout(0.2)
        self.port = self._socket.getsockname()[1]

    def close(self) -> None:
        """No more of it."""
        self._socket.close()

    def heard(self) -> list[str]:
        """All that has come since, of ours."""
        found = []
        try:
            while True:
                found += self._socket.recv(65536).decode().splitlines()
        except TimeoutError:
            return [line.removeprefix("airflow.") for line in found if "opboost" in line]


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    made = Listener()
    settings = {"STATSD_ON": "True", "STATSD_HOST": "127.0.0.1", "STATSD_PORT": str(made.port)}
    for name, value in {**settings, "STATSD_INFLUXDB_ENABLED": "True"}.items():
        monkeypatch.setenv(f"AIRFLOW__METRICS__{name}", value)
    monkeypatch.setenv("OPBOOST_METRICS", "on")
    metrics._without_tags.cache_clear()
    initialise()
    yield made
    monkeypatch.undo()
    metrics._without_tags.cache_clear()
    initialise()
    made.close()


def initialise() -> None:
    """As Airflow's runner of tasks does."""
    factory = task_runner.stats_utils.get_stats_factory()
    Stats.initialize(factory=factory, export_legacy_names=True)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    found = Workspace.write(tmp_path_factory.mktemp("metrics") / "federation")
    found.allow("bank", budget=100.0)

    def yearly(data: dict[str, Any]) -> None:
        for feature in data["parties"]["bank"]["features"].values():
            feature["refresh"] = "yearly"

    found.edit_yaml("federation.yaml", yearly)
    return Workspace(found.folder, run_id(DAG_ID, RUN))


@pytest.mark.slow
def test_a_run_tells_its_facts_by_party_and_stage(
    made: Workspace, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.known_to(monkeypatch)
    in_task(monkeypatch)
    made.open()
    steps = list(made.steps())
    for step in steps:
        tasks.run_stages(step.party, [step.stage], "credit_scoring", "credit")
    told = listener.heard()
    counted = Counter(line.partition(":")[0] for line in told)
    for step in steps:
        tags = f"federation=credit_scoring,party={step.party},stage={step.stage}"
        assert counted[f"opboost.stages_total,{tags},outcome=done"] == 1
        assert counted[f"opboost.stage_seconds,{tags}"] == 1
    sizes = {
        path: json.loads(path.read_text())["files"]
        for path in (made.folder / "exchange").rglob("manifest.json")
        if path.parent.parent.name != "plan"
    }
    stated = sum(file["size"] for files in sizes.values() for file in files.values())
    sent = [line for line in told if line.startswith("opboost.published_bytes_total")]
    assert sum(int(line.partition(":")[2].removesuffix("|c")) for line in sent) == stated
    left = [line for line in told if line.startswith("opboost.releases_left")]
    tags = "federation=credit_scoring,party=bank"
    # Before the run, and after each of what it published.
    assert {line.partition(":")[0] for line in left} == {f"opboost.releases_left,{tags}"}
    numbers = [float(line.partition(":")[2].removesuffix("|g")) for line in left]
    assert 0 < numbers[-1] < 1000 and numbers == sorted(numbers, reverse=True)
    (since,) = [line for line in told if line.startswith("opboost.champion_since")]
    assert since.startswith("opboost.champion_since,federation=credit_scoring,party=credit:1")
    assert not [line for line in told if line.startswith("opboost.drift")]


@pytest.mark.parametrize(
    ("error", "outcome", "refused"),
    [
        (BudgetError("over."), "refused", False),
        (ContractError("bad table."), "failed", False),
        (Rejected("bad_signature", "of another."), "failed", True),
        (ConnectionError("cell-4711"), "again", False),
        (ValueError("cell-4711"), "failed", False),
    ],
)
def test_how_a_task_ended(
    listener: Listener, error: Exception, outcome: str, refused: bool
) -> None:
    def work() -> dict[str, Any]:
        raise error

    with pytest.raises((AirflowFailException, ConnectionError)):
        tasks.execute("accept", work, metrics.meter("credit_scoring", "credit", "accept"))
    told = listener.heard()
    tags = "federation=credit_scoring,party=credit,stage=accept"
    expected = {f"opboost.stages_total,{tags},outcome={outcome}:1|c"}
    expected |= {f"opboost.refused_artifacts_total,{tags}:1|c"} if refused else set()
    assert {line for line in told if "seconds" not in line} == expected
    assert "4711" not in "".join(told)


def test_where_tags_are_dropped_they_are_in_the_name(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED", "False")
    metrics._without_tags.cache_clear()
    initialise()
    meter = metrics.meter("credit_scoring", "bank", "rank")
    assert meter is not None
    meter.fact("releases_left", 12)
    meter.fact("published_bytes_total", 99)
    assert listener.heard() == [
        "opboost.credit_scoring.bank.releases_left:12|g",
        "opboost.credit_scoring.bank.rank.published_bytes_total:99|c",
    ]


def test_a_worker_that_says_nothing_sends_nothing(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPBOOST_METRICS")
    assert metrics.meter("credit_scoring", "bank", "rank") is None
    monkeypatch.setenv("OPBOOST_METRICS", "true")
    with pytest.raises(AirflowFailException, match="OPBOOST_METRICS is neither on nor off"):
        tasks.execute("rank", dict, metrics.meter("credit_scoring", "bank", "rank"))
    assert listener.heard() == []


@pytest.mark.slow
def test_prometheus_takes_the_rules_and_they_fire_when_they_should() -> None:
    """Needs Debian's package ``prometheus``."""
    folder = ROOT / "docs" / "monitoring"
    for command in (["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"]):
        done = subprocess.run(["promtool", *command], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_rules_and_dashboard_ask_for_what_is_sent() -> None:
    folder = ROOT / "docs" / "monitoring"
    names = {metrics.STAGES, metrics.RUNS, metrics.REFUSED, metrics.SECONDS, metrics.SUCCESS}
    names |= set(ADDED)
    for file in ("alerts.yaml", "dashboard.json"):
        asked = set(re.findall(r"airflow_opboost_(\w+)", (folder / file).read_text()))
        assert asked and asked <= names, file
    panels = json.loads((folder / "dashboard.json").read_text())["panels"]
    shown = set(re.findall(r"airflow_opboost_(\w+)", json.dumps(panels)))
    assert shown == names
    page = (ROOT / "docs" / "airflow.md").read_text()
    assert all(f"`opboost.{name}`" in page for name in names)

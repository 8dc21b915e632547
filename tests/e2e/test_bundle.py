"""DAG file and federation file in one repository, which Airflow fetches as a bundle."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from opboost_ops.config.loading import load_site
from opboost_ops.learning.registry.registry import Registry
from opboost_ops.orchestration.deployment.standalone import Standalone
from tests.waiting import ended, errors, until

pytestmark = pytest.mark.deployment

NAME = "credit_scoring"
TRAIN = f"{NAME}_train"
DAG_FILE = '''"""The DAGs of the credit federation, for Airflow."""

from pathlib import Path

from opboost_ops.orchestration.dags.factory import federation_dags

globals().update(federation_dags(Path(__file__).with_name("federation.yaml")))
'''


@pytest.fixture(scope="module")
def repository(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("repository")
    (made / "dags").mkdir()
    (made / "dags" / "credit.py").write_text(DAG_FILE)
    (made / "dags" / "federation.yaml").write_text((folder / "federation.yaml").read_text())
    git(made, "init", "--quiet", "--initial-branch", "main")
    git(made, "add", ".")
    git(made, "commit", "--quiet", "--message", "federation of credit")
    return made


@pytest.fixture(scope="module")
def airflow(
    folder: Path, repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Standalone]:
    sites = {name: folder / name / "site.yaml" for name in ("credit", "shop", "bank")}
    bundle = {
        "name": "federations",
        "classpath": "airflow.providers.git.bundles.git.GitDagBundle",
        "kwargs": {
            "repo_url": str(repository),
            "tracking_ref": "main",
            "subdir": "dags",
            "refresh_interval": 10,
        },
    }
    # Nothing but the repository says where the federation file is.
    environment = {
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([bundle]),
        "OPBOOST_FEDERATIONS": "",
    }
    home = tmp_path_factory.mktemp("airflow")
    with Standalone(home, folder, sites, environment=environment) as running:
        yield running


def git(repository: Path, *arguments: str) -> str:
    who = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    command = ["git", *who, "-C", str(repository), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_a_run_takes_the_federation_file_of_its_own_version_of_the_bundle(
    airflow: Standalone, folder: Path, repository: Path
) -> None:
    client = airflow.client()
    until(lambda: client.has_dag(TRAIN), f"the DAG {TRAIN}", 120)
    run = client.trigger(TRAIN)
    # The file changes while the run is under way; the run keeps the version that it began with.
    first = git(repository, "rev-parse", "HEAD")
    path = repository / "dags" / "federation.yaml"
    path.write_text(path.read_text().replace("trees: 10", "trees: 11"))
    git(repository, "commit", "--quiet", "--all", "--message", "another tree")
    assert ended(client, TRAIN, run, 400) == "success", errors(client, TRAIN, run)
    assert client.run(TRAIN, run)["bundle_version"] == first
    registry = Registry(load_site(folder / "credit" / "site.yaml").models, NAME)
    champion = registry.champion()
    assert champion is not None
    card = json.loads(registry.file(champion, "card.json"))
    assert card["training"]["trees"] == 10

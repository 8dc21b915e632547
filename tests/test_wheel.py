"""The wheel installed outside of the repository, as people would: without Airflow, and with it."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest
import yaml

from opboost_ops import api
from tests.federation import FIRST_RUN, Workspace
from tests.integration.learning.registry.test_model_api import joined

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "docs" / "examples" / "federation.ipynb"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it is installed."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "-d", folder]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def _run(
    command: Sequence[str | Path], folder: Path, status: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, with nothing of the repository in reach."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OPBOOST", "PYTHON"))}
    path = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    done = subprocess.run(
        command,
        cwd=folder,
        env={**environment, "PATH": path, "NO_COLOR": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == status, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done


def _installed(
    wheel: Path, folder: Path, extra: str = "", lock: Path = ROOT / "requirements.lock"
) -> Path:
    """Where the programs are of an environment with the wheel, at the lock's versions."""
    _run(["uv", "venv", "--quiet", "--python", sys.executable, "own"], folder)
    install = ["uv", "pip", "install", "--quiet", "--python", "own/bin/python", "-c", lock]
    _run([*install, f"opboost-ops{extra} @ {wheel.as_uri()}"], folder)
    return folder / "own" / "bin"


@pytest.mark.slow
def test_the_wheel_without_airflow_makes_and_runs_a_federation(wheel: Path, tmp_path: Path) -> None:
    programs = _installed(wheel, tmp_path)
    opboost = programs / "opboost"
    said = _run(
        [programs / "python", "-c", "import opboost_ops; print(opboost_ops.__file__)"], tmp_path
    )
    assert said.stdout.startswith(str(tmp_path))
    version = _run([opboost, "--version"], tmp_path).stdout
    assert re.fullmatch(r"OpBoost Ops \d+\.\d+\.\d+\n", version)

    # A party's files, and a run of all parties: what is no code is found, too.
    table = pl.DataFrame({"customer_id": range(800), "income": range(3000, 3800)})
    table.write_parquet(tmp_path / "bank.parquet")
    about = ["--party", "bank", "--table", "bank.parquet", "--id", "customer_id"]
    _run([opboost, "init", *about], tmp_path)
    assert "income" in (tmp_path / "bank" / "bounds.csv").read_text()
    trained = json.loads(_run([opboost, "run", "--dataset", "credit", "--json"], tmp_path).stdout)
    assert (tmp_path / trained["model"]).is_file()
    refused = _run([opboost, "demo"], tmp_path, status=1)
    assert "pip install 'opboost-ops[airflow]'" in refused.stderr

    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    (tmp_path / "cells.py").write_text("\n".join([*sources, "print(scored.scores.height)"]))
    assert int(_run([programs / "python", "cells.py"], tmp_path).stdout) > 0


#: In a process that has MLflow and onnxruntime, and nothing of OpBoost.
_SCORES = """
import json, sys
import mlflow, pandas
model = mlflow.pyfunc.load_model("models:/credit_scoring@champion")
rows = pandas.DataFrame(json.load(open("rows.json")))
print(json.dumps(model.predict(rows).to_dict("list")))
for name, value in (("bank.income", "3000"), ("credit.employment", 7)):
    try:
        model.predict(rows.assign(**{name: value}))
    except ValueError as error:
        print(error)
(run,) = mlflow.search_runs(search_all_experiments=True, output_format="list")
print(json.dumps([run.data.metrics, run.data.params, run.data.tags]))
print([file.path for file in mlflow.MlflowClient().list_artifacts(run.info.run_id)])
"""


@pytest.mark.slow
def test_a_champion_in_mlflow_scores_raw_rows_without_opboost(
    wheel: Path, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # MLflow asks for older packages than the lock has.
    pins = re.findall(
        r"^[a-z0-9-]+==[^ ]+(?: ;[^\\\n]*)?", (ROOT / "requirements.lock").read_text(), re.M
    )
    older = ("importlib-metadata", "cachetools")
    lock = tmp_path / "constraints.txt"
    lock.write_text("\n".join(pin for pin in pins if not pin.startswith(older)))
    folders = [tmp_path / "holder", tmp_path / "elsewhere"]
    for folder in folders:
        folder.mkdir()
    programs = _installed(wheel, folders[0], "[mlflow]", lock)
    _run(["uv", "venv", "--quiet", "--python", sys.executable, "own"], folders[1])
    needed = ["mlflow-skinny", "onnxruntime", "pandas"]
    install = ["uv", "pip", "install", "--quiet", "--python", "own/bin/python", "-c", lock]
    _run([*install, *needed], folders[1])

    site = workspace.folder / "credit" / "site.yaml"
    declared = yaml.safe_load(site.read_text())
    declared["tables"]["credit_scoring"]["models_to"] = {"at": "env:TRACKING"}
    site.write_text(yaml.safe_dump(declared))
    promote = [programs / "opboost", "models", "promote", site.parent, FIRST_RUN]
    # A store that cannot be reached is a warning, and the version is champion.
    monkeypatch.setenv("TRACKING", "http://127.0.0.1:9")
    refused = _run(promote, tmp_path)
    assert "is champion" in refused.stdout
    assert "champion is not in MLflow: MlflowException" in refused.stderr
    errors = site.parent / "home" / "errors" / "mlflow_credit_scoring.txt"
    assert errors.exists()
    assert "127.0.0.1" not in refused.stdout + refused.stderr
    monkeypatch.setenv("TRACKING", str(tmp_path / "mlruns"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(tmp_path / "mlruns"))
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    for _ in range(2):  # The second time it is there already.
        assert "MLflow" not in _run(promote, tmp_path).stderr
    assert not errors.exists()
    audit = _run([programs / "opboost", "audit", "show", site.parent], tmp_path).stdout
    assert audit.count("credit_scoring/mlflow") == 1

    model, frame = api.models(workspace.file).model(FIRST_RUN), joined(workspace)
    rows = frame.select(model.features).to_dict(as_series=False)
    (folders[1] / "rows.json").write_text(json.dumps(rows))
    lines = _run([folders[1] / "own/bin/python", "-c", _SCORES], folders[1]).stdout.splitlines()
    scores, *refusals, told, artifacts = lines
    found = json.loads(scores)
    expected = model.predict_proba(frame)[:, 1]
    assert max(abs(expected - found["score"])) < 1e-12
    assert found["class"] == model.predict(frame).tolist()
    assert refusals == [
        "bank.income must contain numbers.",
        "credit.employment must contain strings.",
    ]
    metrics, params, tags = json.loads(told)
    evaluated = json.loads(api.models(workspace.file).files(FIRST_RUN)["evaluation.json"])
    auc = evaluated["metrics"]["federated_desensitised"]["auc"]
    assert metrics["federated_desensitised.auc"] == auc
    assert params["training.trees"] == "4" and tags["opboost.version"] == FIRST_RUN
    assert str(tmp_path) not in json.dumps([params, tags])
    assert artifacts == "['card.html', 'card.json']"


@pytest.mark.deployment
def test_the_wheel_with_airflow_runs_the_demo(wheel: Path, tmp_path: Path) -> None:
    programs = _installed(wheel, tmp_path, "[airflow]")
    done = _run([programs / "opboost", "demo"], tmp_path)
    assert "The new champion has started" in done.stderr
    assert list((tmp_path / ".opboost").rglob("models/*/*/model.txt"))

"""Records a version in MLflow; `tracking.py` starts this module in a separate process.

MLflow has its own threads and settings, and its output includes the server's address.
"""

import json
import math
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from opboost_ops import __version__
from opboost_ops.config.federation import Federation
from opboost_ops.errors import OpBoostError
from opboost_ops.extras.export.export import export_model
from opboost_ops.learning.registry.card import Card
from opboost_ops.learning.registry.registry import Registry, backend_in, federation_in
from opboost_ops.learning.registry.tracking import UPLOADED
from opboost_ops.reports.version_page import card_page

#: The tag that identifies a version's run.
_TAG = "opboost.version"


def record(name: str, version: str, files: Mapping[str, bytes]) -> bool:
    """Ensure that a version has a finished run, is registered, and is the alias ``champion``.

    Args:
        name: Name of the federation, and of the experiment and the registered model.
        version: The version.
        files: Files of the version.

    Returns:
        True if this call uploaded it.
    """
    import mlflow

    client = mlflow.MlflowClient()
    experiment = mlflow.set_experiment(name)
    wanted = f"tags.`{_TAG}` = '{version}' and attributes.status = 'FINISHED'"
    done = client.search_runs([experiment.experiment_id], wanted, max_results=1)
    run = done[0].info.run_id if done else _new_run(version, files)
    if not _portable(files):
        return not done
    versions = client.search_model_versions(f"run_id = '{run}'")
    number = (
        versions[0].version
        if versions
        else mlflow.register_model(f"runs:/{run}/model", name).version
    )
    client.set_registered_model_alias(name, "champion", number)
    return not done


def _new_run(version: str, files: Mapping[str, bytes]) -> str:
    import mlflow

    federation = federation_in(files)
    # Otherwise MLflow fills in a path and a user name of this machine.
    about = {"mlflow.source.name": f"opboost-ops {__version__}", "mlflow.user": "opboost-ops"}
    with (
        mlflow.start_run(run_name=version, tags={_TAG: version, **about}) as run,
        TemporaryDirectory() as folder,
    ):
        mlflow.log_params(_parameters(federation))
        mlflow.log_metrics(_metrics(json.loads(files["evaluation.json"])["metrics"]))
        mlflow.log_text(files["card.json"].decode(), "card.json")
        # Without curves, which disclose single held-out rows.
        card = Card.model_validate_json(files["card.json"])
        mlflow.log_text(card_page(card), "card.html")
        if _portable(files):
            path = Path(folder) / "model.onnx"
            path.write_bytes(export_model(files, "onnx"))
            mlflow.pyfunc.log_model(
                name="model",
                python_model=str(Path(__file__).with_name("mlflow_scorer.py")),
                artifacts={"model": str(path)},
                pip_requirements=[f"mlflow>={mlflow.__version__}", "onnxruntime>=1.22", "pandas"],
            )
    run_id: str = run.info.run_id
    return run_id


def _portable(files: Mapping[str, bytes]) -> bool:
    """Return True if a format takes raw columns, which XGBoost's models do not have."""
    return "onnx" in backend_in(files).forms


def _parameters(federation: Federation) -> dict[str, Any]:
    training = federation.training.model_dump(mode="json", exclude_none=True)
    parameters = {f"training.{key}": value for key, value in training.items()}
    parties = ", ".join(federation.parties)
    return {"scoring.mode": federation.scoring.mode, "parties": parties, **parameters}


def _metrics(metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    return {
        f"{model}.{name}": value
        for model, measured in metrics.items()
        for name, value in measured.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }


def main() -> None:
    """Record the version that the arguments name.

    Standard output has one line: the outcome, or the error. Tracebacks and MLflow's output go to
    standard error, which stays in the party's home.
    """
    folder, name, version = sys.argv[1:]
    try:
        with redirect_stdout(sys.stderr):
            uploaded = record(name, version, Registry(Path(folder), name).files(version))
    except Exception as error:
        print(str(error) if isinstance(error, OpBoostError) else type(error).__name__)  # noqa: T201
        raise
    if uploaded:
        print(UPLOADED)  # noqa: T201


if __name__ == "__main__":
    main()

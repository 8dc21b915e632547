"""Upload of the champion to the label holder's MLflow: ``models_to`` in ``site.yaml``."""

import logging
import os
import subprocess
import sys
from pathlib import Path

from opboost_ops.config.resources import require_extra
from opboost_ops.config.site import Site
from opboost_ops.errors import OpBoostError
from opboost_ops.exchange.party_state import open_state
from opboost_ops.learning.registry.registry import Registry
from opboost_ops.tables.spill.files import private_folder

_LOG = logging.getLogger("opboost_ops")

#: The last line that the uploading process prints if the version is new in MLflow.
UPLOADED = "uploaded"

#: Seconds until an upload is aborted.
_TIMEOUT = 120

#: Environment variables for MLflow: no telemetry, and few retries.
_SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}


def record_champion(site: Site, federation: str) -> None:
    """Record the champion in MLflow if ``site.yaml`` names a server that does not have it yet.

    A failure only causes a warning, an error file and a note on the pages; the next training
    retries. An upload is recorded in the audit log.

    Args:
        site: The label holder's site.
        federation: Name of the federation.
    """
    problem = details = ""
    try:
        url = tracking_server(site, federation)
        version = url and Registry(site.models, federation).champion()
        if not url or not version:
            return
        uploaded, problem, details = _upload(url, str(site.models), federation, version)
        if uploaded:
            with open_state(site) as state:
                detail = f"version {version} uploaded"
                state.audit.add("noted", f"{federation}/mlflow", site.party, detail=detail)
    except (OpBoostError, OSError) as error:
        problem = str(error) if isinstance(error, OpBoostError) else type(error).__name__
    file = _error_file(site, federation)
    if not problem:
        file.unlink(missing_ok=True)
        return
    private_folder(file.parent)
    file.write_text(f"{problem}\n{details}", encoding="utf-8")
    _LOG.warning(
        "The champion is not in MLflow: %s. %s in the home folder has details. The next "
        "training retries; to retry now, clear this task.",
        problem.rstrip("."),
        file.relative_to(site.home),
    )


def upload_problem(site: Site, federation: str) -> str:
    """Return why the last upload to MLflow failed; empty if it succeeded or none is configured."""
    tables = site.tables.get(federation)
    if tables is None or tables.models_to is None:
        return ""
    file = _error_file(site, federation)
    return file.read_text(encoding="utf-8").partition("\n")[0] if file.exists() else ""


def tracking_server(site: Site, federation: str) -> str:
    """Return the address of the site's MLflow server; empty if none is configured.

    Raises:
        ConfigError: The variable for the address is not set, or the extra is not installed.
    """
    tables = site.tables.get(federation)
    if tables is None or tables.models_to is None:
        return ""
    url = tables.models_to.url()
    require_extra("mlflow", "MLflow", "models_to in site.yaml names MLflow", "mlflow")
    return url


def _error_file(site: Site, federation: str) -> Path:
    return site.home / "errors" / f"mlflow_{federation}.txt"


def _upload(url: str, *of: str) -> tuple[bool, str, str]:
    """Record a version in a separate process.

    Returns:
        True if it was uploaded now; the problem, if any; and MLflow's output.
    """
    environment = {**os.environ, **_SETTINGS, "MLFLOW_TRACKING_URI": url}
    command = [sys.executable, "-m", "opboost_ops.extras.export.mlflow_run", *of]
    try:
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        return False, f"it did not respond within {_TIMEOUT} seconds", ""
    last = done.stdout.strip().rpartition("\n")[2]
    if not done.returncode:
        return last == UPLOADED, "", ""
    return False, last or "the uploading process failed", done.stderr

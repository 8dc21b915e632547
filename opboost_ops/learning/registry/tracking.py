"""The champion in MLflow, where the label holder's people look: `models_to` in ``site.yaml``."""

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

#: What the process that uploads prints last if the version was not there before.
UPLOADED = "uploaded"

#: Seconds that a promotion waits at most.
_LONGEST = 120

#: What MLflow would tell others by itself, and how long it tries a server.
_SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}


def record_champion(site: Site, federation: str) -> None:
    """Record the champion in MLflow, if the site asks for it and it is not there yet.

    A failure changes nothing else: it is a warning, a file of errors and a note on the pages, and
    the next training tries again. An upload has an entry in the audit log.

    Args:
        site: The label holder's.
        federation: Name of the federation.
    """
    problem = details = ""
    try:
        url = tracking_server(site, federation)
        version = url and Registry(site.models, federation).champion()
        if not url or not version:
            return
        uploaded, problem, details = _recorded(url, str(site.models), federation, version)
        if uploaded:
            with open_state(site) as state:
                detail = f"version {version} uploaded"
                state.audit.add("noted", f"{federation}/mlflow", site.party, detail=detail)
    except (OpBoostError, OSError) as error:
        problem = str(error) if isinstance(error, OpBoostError) else type(error).__name__
    file = _errors(site, federation)
    if not problem:
        file.unlink(missing_ok=True)
        return
    private_folder(file.parent)
    file.write_text(f"{problem}\n{details}", encoding="utf-8")
    _LOG.warning(
        "The champion is not in MLflow: %s. %s in the home folder has details. The next "
        "training, or clearing this task, tries again.",
        problem.rstrip("."),
        file.relative_to(site.home),
    )


def upload_problem(site: Site, federation: str) -> str:
    """Why the last upload to MLflow failed; empty if it did not, or none is asked for."""
    tables = site.tables.get(federation)
    if tables is None or tables.models_to is None:
        return ""
    file = _errors(site, federation)
    return file.read_text(encoding="utf-8").partition("\n")[0] if file.exists() else ""


def _errors(site: Site, federation: str) -> Path:
    return site.home / "errors" / f"mlflow_{federation}.txt"


def tracking_server(site: Site, federation: str) -> str:
    """Address of the MLflow server that a site names; empty if it names none.

    Raises:
        ConfigError: Its variable is not set, or the extra is not installed.
    """
    tables = site.tables.get(federation)
    if tables is None or tables.models_to is None:
        return ""
    url = tables.models_to.url()
    require_extra("mlflow", "MLflow", "models_to in site.yaml names MLflow", "mlflow")
    return url


def _recorded(url: str, *of: str) -> tuple[bool, str, str]:
    """Record a version in a process of its own.

    Returns:
        Whether it was uploaded now, what failed, and MLflow's output.
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
            timeout=_LONGEST,
        )
    except subprocess.TimeoutExpired:
        return False, f"it did not answer within {_LONGEST} seconds", ""
    last = done.stdout.strip().rpartition("\n")[2]
    if not done.returncode:
        return last == UPLOADED, "", ""
    return False, last or "its process ended", done.stderr

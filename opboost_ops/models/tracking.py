"""The champion in MLflow, where the label holder's people look: `models_to` in ``site.yaml``."""

import logging
import os
import subprocess
import sys

from opboost_ops.boosting.extras import require_extra
from opboost_ops.config.site import Site
from opboost_ops.errors import OpBoostError
from opboost_ops.models.registry import Registry
from opboost_ops.scratch.folders import private_folder

_LOG = logging.getLogger("opboost_ops")

#: Seconds that a promotion waits at most.
_LONGEST = 120

#: What MLflow would tell others by itself, and how long it tries a server.
_SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}

#: Of the party's home: what MLflow said when it last failed.
DETAILS = "models_to.txt"


def record_champion(site: Site, federation: str) -> None:
    """Record the champion in MLflow, if the site asks for it and it is not there yet.

    A failure is a warning and nothing else: the champion is the champion, and the next run tries
    again.

    Args:
        site: The label holder's.
        federation: Name of the federation.
    """
    problem = ""
    try:
        url = tracking_server(site, federation)
        version = url and Registry(site.models, federation).champion()
        if not url or not version:
            return
        problem, details = _recorded(url, str(site.models), federation, version)
        if problem:
            private_folder(site.home)
            (site.home / DETAILS).write_text(details, encoding="utf-8")
    except (OpBoostError, OSError) as error:
        problem = str(error) if isinstance(error, OpBoostError) else type(error).__name__
    if problem:
        _LOG.warning(
            "the champion is not in MLflow: %s; %s in the home folder has details. The next "
            "training, or clearing this task, tries again.",
            problem.rstrip("."),
            DETAILS,
        )


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


def _recorded(url: str, *of: str) -> tuple[str, str]:
    """Record a version in a process of its own; what failed, and all that was said."""
    environment = {**os.environ, **_SETTINGS, "MLFLOW_TRACKING_URI": url}
    command = [sys.executable, "-m", "opboost_ops.models.mlflow_run", *of]
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
        return f"it did not answer within {_LONGEST} seconds", ""
    if not done.returncode:
        return "", ""
    return done.stdout.strip().rpartition("\n")[2] or "its process ended", done.stderr

"""Keys that lie in no file: in a worker's environment, or in what its Airflow keeps secrets in."""

import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opboost_ops.config.source import ENVIRONMENT
from opboost_ops.errors import ConfigError

#: How an entry of ``site.yaml`` names a variable of Airflow's secrets backend of that worker.
AIRFLOW = "airflow:"


def in_a_file(place: Path) -> bool:
    """Whether an entry of ``site.yaml`` for a key names a file.

    Args:
        place: The entry.
    """
    return not str(place).startswith((ENVIRONMENT, AIRFLOW))


def text_of(place: Path, what: str) -> str:
    """What is kept of a key that lies in no file: base64.

    Args:
        place: The entry of ``site.yaml``.
        what: What kind of key it is, for the error: "noise secret".

    Raises:
        ConfigError: There is none of that name.
    """
    kind, name = str(place).split(":", 1)
    if f"{kind}:" == ENVIRONMENT:
        found, where = os.environ.get(name), f"the environment variable {name}"
    else:
        found, where = _of_airflow(name), f"the variable {name} in Airflow's secrets backend"
    if found:
        return found.strip()
    raise ConfigError(
        f"The {what} cannot be read: {where} of this worker is not set.",
        "Set it on this party's workers only, to the base64 of what `opboost keys init` makes.",
    )


def connection_of(name: str) -> Mapping[str, str] | None:
    """The fields of a connection that this worker's own Airflow keeps, for a store.

    Args:
        name: The connection's id.

    Returns:
        ``conn_type``, ``host``, ``schema``, ``login``, ``password`` and the texts of its extra;
        None if there is none.

    Raises:
        ConfigError: There is no Airflow here.
    """
    found: Mapping[str, str] | None = _airflow("A store's login").connection(name)
    return found


def _of_airflow(name: str) -> str | None:
    found: str | None = _airflow("A key").variable(name)
    return found


def _airflow(what: str) -> Any:
    # By its name: Airflow is an extra, and only the orchestration knows it.
    try:
        backend = importlib.import_module("opboost_ops.orchestration.secrets")
    except ImportError:
        backend = None
    if backend is None:
        raise ConfigError(
            f"{what} is kept in Airflow's secrets backend, and there is no Airflow here.",
            "Run this where the party's worker runs, with the extra `airflow`.",
        )
    return backend

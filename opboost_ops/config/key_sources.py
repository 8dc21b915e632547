"""Keys outside files: in a worker's environment, or in its Airflow's secrets backend."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from opboost_ops.config.source import ENVIRONMENT
from opboost_ops.errors import ConfigError

#: Prefix of a ``site.yaml`` entry that names a variable in the worker's Airflow secrets backend.
AIRFLOW = "airflow:"


class SecretsBackend(Protocol):
    """Access to a party's secrets in its own worker's Airflow."""

    def variable(self, name: str) -> str | None:
        """Return a variable's text, or None."""

    def connection(self, name: str) -> Mapping[str, str] | None:
        """Return a connection's fields as in `connection_of`, or None."""


_backend: Callable[[], SecretsBackend | None] = lambda: None  # noqa: E731


def use_backend(backend: Callable[[], SecretsBackend | None]) -> None:
    """Register the secrets backend.

    Args:
        backend: Called when a secret is needed; returns None without Airflow.
    """
    global _backend
    _backend = backend


def is_file_entry(place: Path) -> bool:
    """True if a key's entry in ``site.yaml`` names a file."""
    return not str(place).startswith((ENVIRONMENT, AIRFLOW))


def text_of(place: Path, what: str) -> str:
    """Return the base64 text of a key outside files.

    Args:
        place: The entry of ``site.yaml``.
        what: Kind of key for the error, such as "noise secret".

    Raises:
        ConfigError: There is no such variable.
    """
    kind, name = str(place).split(":", 1)
    if f"{kind}:" == ENVIRONMENT:
        text, where = os.environ.get(name), f"the environment variable {name}"
    else:
        text = _airflow("A key").variable(name)
        where = f"the variable {name} in Airflow's secrets backend"
    if text:
        return text.strip()
    raise ConfigError(
        f"The {what} cannot be read: {where} of this worker is not set.",
        "Set it on this party's workers only, to the base64 text of the key file's bytes.",
    )


def connection_of(name: str) -> Mapping[str, str] | None:
    """Return a store's connection from this worker's own Airflow.

    Args:
        name: Id of the connection.

    Returns:
        ``conn_type``, ``host``, ``schema``, ``login``, ``password`` and the texts of its extra;
        None if there is no such connection.

    Raises:
        ConfigError: Airflow is not installed.
    """
    return _airflow("A store's login").connection(name)


def _airflow(what: str) -> SecretsBackend:
    if backend := _backend():
        return backend
    raise ConfigError(
        f"{what} is in Airflow's secrets backend, and Airflow is not installed here.",
        "Run this on the party's worker, with the extra `airflow` installed.",
    )

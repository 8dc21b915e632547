"""Keys that lie in no file: in a worker's environment, or in what its Airflow keeps secrets in."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from opboost_ops.config.source import ENVIRONMENT
from opboost_ops.errors import ConfigError

#: How an entry of ``site.yaml`` names a variable of Airflow's secrets backend of that worker.
AIRFLOW = "airflow:"


class SecretsBackend(Protocol):
    """A store of a party's secrets outside its files: its own worker's Airflow."""

    def variable(self, name: str) -> str | None:
        """A variable's text; None if there is none."""

    def connection(self, name: str) -> Mapping[str, str] | None:
        """A connection's fields, as `connection_of` returns them; None if there is none."""


_backend: Callable[[], SecretsBackend | None] = lambda: None  # noqa: E731


def use_backend(backend: Callable[[], SecretsBackend | None]) -> None:
    """Hand in what keeps secrets; there is none until then.

    Args:
        backend: Called when a secret is needed; returns None where there is no Airflow.
    """
    global _backend
    _backend = backend


def in_a_file(place: Path) -> bool:
    """True if an entry of ``site.yaml`` for a key names a file.

    Args:
        place: The entry.
    """
    return not str(place).startswith((ENVIRONMENT, AIRFLOW))


def text_of(place: Path, what: str) -> str:
    """The base64 text of a key that lies in no file.

    Args:
        place: The entry of ``site.yaml``.
        what: What kind of key it is, for the error: "noise secret".

    Raises:
        ConfigError: There is none of that name.
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
    return _airflow("A store's login").connection(name)


def _airflow(what: str) -> SecretsBackend:
    if backend := _backend():
        return backend
    raise ConfigError(
        f"{what} is in Airflow's secrets backend, and Airflow is not installed here.",
        "Run this where the party's worker runs, with the extra `airflow`.",
    )

"""Connections and secrets of a party, from its own Airflow's secrets backends."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from airflow.sdk import BaseHook
from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded
from airflow.sdk.log import mask_secret

from opboost_ops.errors import OpBoostError
from opboost_ops.exchange.store.store import CONNECTION, store_of
from opboost_ops.orchestration.dags.party_dags import names_in

#: Backends that all parties of an Airflow share, which must not hold a party's keys.
_SHARED = frozenset({"ExecutionAPISecretsBackend", "MetastoreBackend"})

#: A place in the store where no artifact is ever written.
_UNUSED_PLACE = "opboost-connection-test"


def variable(name: str) -> str | None:
    """Return a variable from this worker's own backends, and mask it in this task's log.

    The shared Airflow's database is never read, since its users and other parties' tasks could
    read the variable there as well.

    Args:
        name: Name of the variable.

    Returns:
        Its text; None if no backend of this worker has it or answers.
    """
    text = _first_answer(_own_backends(), lambda backend: backend.get_variable(key=name))
    if text is None:
        return None
    mask_secret(text)
    mask_secret(text.strip())
    return str(text)


def connection(name: str) -> dict[str, str] | None:
    """Return a connection from this worker's own backends, and mask its secrets in this task's log.

    The shared Airflow's database is not read, since every task of every party could read it. If
    ``OPBOOST_PARTIES`` names a single party, the Airflow and its database belong to that party.

    Args:
        name: Id of the connection.

    Returns:
        The fields, as from `fields_of`; None if no backend of this worker has it.
    """
    single_party = len(names_in(os.environ.get("OPBOOST_PARTIES")) or ()) == 1
    backends = ensure_secrets_backend_loaded() if single_party else _own_backends()
    entry = _first_answer(backends, lambda backend: backend.get_connection(conn_id=name))
    return None if entry is None else fields_of(entry)


def fields_of(connection: Any) -> dict[str, str]:
    """Return the fields of an Airflow connection, and mask its secrets in this process's log."""
    names = ("conn_type", "host", "schema", "login", "password")
    fields = {name: str(getattr(connection, name) or "") for name in names}
    extra: Mapping[str, Any] = connection.extra_dejson
    fields |= {name: str(value) for name, value in extra.items() if name not in fields and value}
    for name in ("login", "password", "session_token"):
        if fields.get(name):
            mask_secret(fields[name])
    return fields


def _first_answer(backends: Iterable[Any], lookup: Callable[[Any], Any]) -> Any:
    """Return the first truthy result of a lookup, or None."""
    for backend in backends:
        # A backend's error may contain a secret: ignore it and try the next backend.
        with suppress(Exception):
            if answer := lookup(backend):
                return answer
    return None


def _own_backends() -> Iterator[Any]:
    for backend in ensure_secrets_backend_loaded():
        if type(backend).__name__ not in _SHARED:
            yield backend


class StoreHook(BaseHook):
    """The bucket and credentials of a store, as an Airflow connection.

    Args:
        opboost_store_conn_id: Id of the connection.
        **more: Arguments of `airflow.sdk.BaseHook`.
    """

    conn_name_attr = "opboost_store_conn_id"
    default_conn_name = "opboost_store_default"
    conn_type = CONNECTION
    hook_name = "OpBoost store"

    def __init__(self, opboost_store_conn_id: str = default_conn_name, **more: Any) -> None:
        super().__init__(**more)
        self._id = opboost_store_conn_id

    def get_conn(self) -> Any:
        """Return the store that the connection names.

        Raises:
            ConfigError: The connection names no store.
        """
        return store_of(fields_of(self.get_connection(self._id)), "The connection")

    def test_connection(self) -> tuple[bool, str]:
        """Read and list in the store, without writing.

        Returns:
            Success, and a message without bucket, address or secret.
        """
        try:
            store = self.get_conn()
            marked = store.throwaway
            store.list(_UNUSED_PLACE)
        except OpBoostError as error:
            return False, f"{error.problem} {error.remedy}".strip()
        except ConnectionError as error:
            return False, str(error)
        except Exception as error:
            # The text of a foreign error may contain the address or the key.
            return False, f"The store cannot be opened ({type(error).__name__})."
        kind = " It is marked as a store of experiments." if marked else ""
        return True, f"The bucket can be read and listed. Nothing was written.{kind}"

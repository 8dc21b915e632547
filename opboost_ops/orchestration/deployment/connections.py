"""Connections and secrets of a party in its own Airflow."""

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

#: Where all parties of an Airflow meet: a key of one party must not lie there.
_SHARED = frozenset({"ExecutionAPISecretsBackend", "MetastoreBackend"})

#: A place that no artifact has.
_NOWHERE = "opboost-connection-test"


def variable(name: str) -> str | None:
    """A variable of this worker's own backends, masked in all that this task logs from now on.

    What the Airflow that parties share keeps in its database is not asked for: its people could
    read it, and another party's tasks as well.

    Args:
        name: The variable's.

    Returns:
        Its text; None if no backend of this worker has it, or none answers.
    """
    text = _first_answer(_own_backends(), lambda backend: backend.get_variable(key=name))
    if text is None:
        return None
    mask_secret(text)
    mask_secret(text.strip())
    return str(text)


def connection(name: str) -> dict[str, str] | None:
    """A connection of this worker's own backends; its secrets are masked in this task's log.

    What the Airflow that parties share keeps in its database is not asked for: every task of every
    party could have it. Where ``OPBOOST_PARTIES`` names one party alone, the Airflow is that
    party's, and its database is.

    Args:
        name: The connection's id.

    Returns:
        Its fields as `fields_of` gives them; None if no backend of this worker has it.
    """
    alone = len(names_in(os.environ.get("OPBOOST_PARTIES")) or ()) == 1
    backends = ensure_secrets_backend_loaded() if alone else _own_backends()
    entry = _first_answer(backends, lambda backend: backend.get_connection(conn_id=name))
    return None if entry is None else fields_of(entry)


def fields_of(connection: Any) -> dict[str, str]:
    """The fields of a connection; from now on its secrets are masked in this process's log.

    Args:
        connection: Airflow's.
    """
    named = ("conn_type", "host", "schema", "login", "password")
    fields = {name: str(getattr(connection, name) or "") for name in named}
    extra: Mapping[str, Any] = connection.extra_dejson
    fields |= {name: str(value) for name, value in extra.items() if name not in fields and value}
    for name in ("login", "password", "session_token"):
        if fields.get(name):
            mask_secret(fields[name])
    return fields


def _first_answer(backends: Iterable[Any], ask: Callable[[Any], Any]) -> Any:
    """The first backend's answer that is anything."""
    for backend in backends:
        # What a backend's error says may be a secret itself; the next one is asked.
        with suppress(Exception):
            if answer := ask(backend):
                return answer
    return None


def _own_backends() -> Iterator[Any]:
    for backend in ensure_secrets_backend_loaded():
        if type(backend).__name__ not in _SHARED:
            yield backend


class StoreHook(BaseHook):
    """A store's bucket and its login, as a connection.

    Args:
        opboost_store_conn_id: The connection's id.
        **more: As of `airflow.sdk.BaseHook`.
    """

    conn_name_attr = "opboost_store_conn_id"
    default_conn_name = "opboost_store_default"
    conn_type = CONNECTION
    hook_name = "OpBoost store"

    def __init__(self, opboost_store_conn_id: str = default_conn_name, **more: Any) -> None:
        super().__init__(**more)
        self._id = opboost_store_conn_id

    def get_conn(self) -> Any:
        """The store that the connection names.

        Raises:
            ConfigError: It names none.
        """
        return store_of(fields_of(self.get_connection(self._id)), "The connection")

    def test_connection(self) -> tuple[bool, str]:
        """Read and list in the store, and write nothing.

        Returns:
            Whether it went well, and a text without bucket, address or secret.
        """
        try:
            store = self.get_conn()
            marked = store.throwaway
            store.list(_NOWHERE)
        except OpBoostError as error:
            return False, f"{error.problem} {error.remedy}".strip()
        except ConnectionError as error:
            return False, str(error)
        except Exception as error:
            # The text of a foreign error may name the address or the key.
            return False, f"The store cannot be opened ({type(error).__name__})."
        kind = " It is marked as a store of experiments." if marked else ""
        return True, f"The bucket can be read and listed. Nothing was written.{kind}"

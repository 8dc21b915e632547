"""The connection type ``opboost_store``: Airflow's form for it, and what its test button does."""

from typing import Any

from airflow.sdk import BaseHook

from opboost_ops.errors import OpBoostError
from opboost_ops.exchange.store.store import CONNECTION, store_of
from opboost_ops.orchestration.deployment.secrets import fields_of

#: A place that no artifact has.
_NOWHERE = "opboost-connection-test"


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

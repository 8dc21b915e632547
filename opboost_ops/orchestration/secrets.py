"""Keys of a party from the secrets backend of its own worker's Airflow."""

from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded
from airflow.sdk.log import mask_secret

#: Where all parties of an Airflow meet: a key of one party must not lie there.
_SHARED = frozenset({"ExecutionAPISecretsBackend", "MetastoreBackend"})


def variable(name: str) -> str | None:
    """A variable of this worker's own backends, masked in all that this task logs from now on.

    What the Airflow that parties share keeps in its database is not asked for: its people could
    read it, and another party's tasks as well.

    Args:
        name: The variable's.

    Returns:
        Its text; None if no backend of this worker has it, or none answers.
    """
    for backend in ensure_secrets_backend_loaded():
        if type(backend).__name__ in _SHARED:
            continue
        try:
            found = backend.get_variable(key=name)
        except Exception:  # noqa: S112
            # What a backend's error says may be a secret itself; the next one is asked.
            continue
        if found:
            mask_secret(found)
            mask_secret(found.strip())
            return str(found)
    return None

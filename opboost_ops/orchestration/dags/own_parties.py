"""Which parties are of this Airflow."""

from collections.abc import Sequence

from opboost_ops.config.federation import Federation


def names_in(value: str | None) -> tuple[str, ...] | None:
    """The parties of this Airflow.

    Args:
        value: Of `OPBOOST_PARTIES`: names, comma separated.

    Returns:
        Their names; None for all, where the variable is not set or empty.
    """
    if value is None or not value.strip():
        return None
    return tuple(name.strip() for name in value.split(",") if name.strip())


def here_of(federation: Federation, parties: Sequence[str] | None) -> tuple[str, ...] | None:
    """Which of a federation's parties are in this Airflow.

    Args:
        federation: What its file says.
        parties: Those of this Airflow; all when absent.

    Returns:
        Their names, perhaps none; None for all.
    """
    if parties is None or set(federation.parties) <= set(parties):
        return None
    return tuple(name for name in federation.parties if name in parties)

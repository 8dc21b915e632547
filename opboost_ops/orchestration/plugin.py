"""The Airflow plugin: the scheduler's look at pools. Registered by entry point and `plugins/`."""

from airflow.plugins_manager import AirflowPlugin

from opboost_ops.orchestration import pools


class OpBoostPlugin(AirflowPlugin):
    """Loaded by every Airflow component; light, therefore."""

    name = "opboost"
    listeners = [pools]  # noqa: RUF012

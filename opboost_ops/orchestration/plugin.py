"""The Airflow plugin: the scheduler's look at pools. Registered by entry point and `plugins/`."""

from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

from opboost_ops.orchestration import pools


class OpBoostPlugin(AirflowPlugin):
    """Loaded by every Airflow component; light, therefore."""

    name = "opboost"
    listeners: ClassVar[list[Any]] = [pools]

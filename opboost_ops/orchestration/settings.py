"""The section ``[opboost]`` of Airflow's configuration, beside the variables of the same names.

What is set there is put into this process's environment, where everything else looks: only if the
variable itself is not set, so the environment wins. ``opboost`` at a terminal reads no section.
"""

import os
import re
from collections.abc import Mapping
from typing import Any

from opboost_ops.config.key_sources import SecretsBackend, use_backend

#: Of the section and of its variables, ``OPBOOST_<OPTION>``.
SECTION = "opboost"

#: What may be set there, beside ``site_<party>``.
OPTIONS: Mapping[str, str] = {
    "federations": "Folder of the federation files, for the DAG processor and all workers.",
    "parties": "The parties of this Airflow, comma separated; all when empty.",
    "notifiers": "Who is told of what: package.module:name of a mapping from events to notifiers.",
    "metrics": "Whether this process sends metrics: on or off.",
}

_SITE = re.compile(r"site_[a-z0-9_]+")


def use_airflow_secrets() -> None:
    """Let keys and logins named ``airflow:...`` be read from this machine's Airflow."""
    use_backend(_secrets)


def _secrets() -> SecretsBackend | None:
    try:
        from opboost_ops.orchestration.deployment import connections
    except ImportError:
        return None
    return connections


def adopt_section() -> None:
    """Put what Airflow's configuration says of us into this process's environment."""
    from airflow.configuration import conf

    use_airflow_secrets()

    for option, value in (conf.getsection(SECTION) or {}).items():
        if value not in (None, "") and (option in OPTIONS or _SITE.fullmatch(option)):
            os.environ.setdefault(f"OPBOOST_{option.upper()}", str(value))


def get_provider_info() -> dict[str, Any]:
    """Airflow's entry of this package among its providers; its entry point."""
    options = {
        name: {"description": text, "version_added": None, "type": "string", "default": ""}
        for name, text in OPTIONS.items()
    }
    return {
        "package-name": "opboost-ops",
        "name": "OpBoost Ops",
        "description": "Privacy-preserving federated gradient boosting as DAGs.",
        "connection-types": [
            {
                "connection-type": "opboost_store",
                "hook-class-name": "opboost_ops.orchestration.deployment.connections.StoreHook",
                "hook-name": "OpBoost store",
                "ui-field-behaviour": {
                    "hidden-fields": [],
                    "relabeling": {
                        "host": "Bucket",
                        # Airflow 3.3's button calls no port at all another one than the stored.
                        "port": "Port (443; only Airflow's button for testing needs it)",
                        "schema": "Prefix",
                        "login": "Access key ID",
                        "password": "Secret access key",
                    },
                },
                "conn-fields": {
                    name: {"label": label, "schema": {"type": ["string", "null"], **more}}
                    for name, label, more in (
                        ("endpoint", "Endpoint, of another service than Amazon's", {}),
                        ("region", "Region", {}),
                        ("session_token", "Session token", {"format": "password"}),
                    )
                },
            }
        ],
        "config": {
            SECTION: {
                "description": "OpBoost Ops; a variable OPBOOST_<OPTION> wins over each of these. "
                "site_<party> is the path of a party's site.yaml, on its own workers.",
                "options": {name: {**option, "example": None} for name, option in options.items()},
            }
        },
    }

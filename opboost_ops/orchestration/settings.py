"""The ``[opboost]`` section of Airflow's configuration, an alternative to environment variables.

Each option is copied into this process's environment unless the variable is set there, so the
environment takes precedence. The ``opboost`` command does not read the section.
"""

import os
import re
from collections.abc import Mapping
from typing import Any

from opboost_ops.config.key_sources import SecretsBackend, use_backend

#: Name of the section, and prefix of its variables, ``OPBOOST_<OPTION>``.
SECTION = "opboost"

#: The options, in addition to ``site_<party>``.
OPTIONS: Mapping[str, str] = {
    "federations": "Folder of the federation files, for the DAG processor and all workers.",
    "parties": "The parties of this Airflow, comma separated; all when empty.",
    "notifiers": "package.module:name of a mapping from events to lists of Airflow notifiers.",
    "metrics": "Whether this process sends metrics: on or off.",
}

_SITE = re.compile(r"site_[a-z0-9_]+")


def use_airflow_secrets() -> None:
    """Let keys and logins named ``airflow:...`` be read from Airflow's secrets backend."""
    use_backend(_secrets)


def _secrets() -> SecretsBackend | None:
    try:
        from opboost_ops.orchestration.deployment import connections
    except ImportError:
        return None
    return connections


def adopt_section() -> None:
    """Copy the ``[opboost]`` section of Airflow's configuration into the environment."""
    from airflow.configuration import conf

    use_airflow_secrets()

    for option, value in (conf.getsection(SECTION) or {}).items():
        if value not in (None, "") and (option in OPTIONS or _SITE.fullmatch(option)):
            os.environ.setdefault(f"OPBOOST_{option.upper()}", str(value))


def get_provider_info() -> dict[str, Any]:
    """Return the package's description as an Airflow provider; the provider entry point."""
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
                        # Airflow 3.3's test button cannot tell an absent port from the stored one.
                        "port": "Port (443; only Airflow's test button needs it)",
                        "schema": "Prefix",
                        "login": "Access key ID",
                        "password": "Secret access key",
                    },
                },
                "conn-fields": {
                    name: {"label": label, "schema": {"type": ["string", "null"], **more}}
                    for name, label, more in (
                        ("endpoint", "Endpoint, if not Amazon S3", {}),
                        ("region", "Region", {}),
                        ("session_token", "Session token", {"format": "password"}),
                    )
                },
            }
        ],
        "config": {
            SECTION: {
                "description": "OpBoost Ops. A variable OPBOOST_<OPTION> overrides the option. "
                "site_<party> is the path of a party's site.yaml, on its own workers.",
                "options": {name: {**option, "example": None} for name, option in options.items()},
            }
        },
    }

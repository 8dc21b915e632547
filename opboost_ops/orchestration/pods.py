"""Pods of the parties' tasks, where Airflow's KubernetesExecutor runs them: a manifest a queue.

The executor makes each task's pod of one template; what a party's pods alone may have, its secrets,
its site file, its service account, is put over that. The manifests lie with the DAG processor:
they are part of where federations run, not of what parties agree to.
"""

import os
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from opboost_ops.errors import ConfigError, Fault

#: Folder of ``<queue>.yaml``; where it is not set, tasks say nothing of pods.
FOLDER = "OPBOOST_PODS"

#: How Airflow calls the container in which a task runs.
_CONTAINER = "base"


def pod_override(queue: str) -> dict[str, Any]:
    """What a task of a queue tells the KubernetesExecutor; other executors do not read it.

    Args:
        queue: The party's.

    Returns:
        Arguments of the task: ``executor_config``, or nothing where no folder is set.

    Raises:
        ConfigError: The queue has no manifest, or a faulty one, or the provider is absent. A
            party's task is never left to the template that all share.
    """
    folder = os.environ.get(FOLDER)
    if not folder:
        return {}
    path = Path(folder) / f"{queue}.yaml"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        raise ConfigError(
            f"{FOLDER} has no file {path.name} that can be read.",
            f"Write the pod of the queue {queue} there; without it its tasks would run in a pod "
            "that all parties share.",
        ) from None
    return {"executor_config": {"pod_override": _pod(path.name, text)}}


@cache
def _pod(name: str, text: str) -> Any:
    try:
        from airflow.providers.cncf.kubernetes.pod_generator import PodGenerator
        from kubernetes.client import ApiClient
    except ImportError:
        raise ConfigError(
            f"{FOLDER} needs Airflow's provider of Kubernetes.",
            "Run pip install 'opboost-ops[kubernetes]' where the DAG processor and the scheduler "
            "run.",
        ) from None
    try:
        declared = yaml.safe_load(text)
    except yaml.YAMLError:
        raise ConfigError("is not YAML.", "Write a Pod as for kubectl.", file=name) from None
    faults = _faults(declared)
    if faults:
        raise ConfigError("is not the pod of a task", file=name, faults=faults)
    try:
        pod = PodGenerator.deserialize_model_dict(declared)
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"is not a Pod: {type(error).__name__}.", "Try kubectl create --dry-run.", file=name
        ) from None
    # The client drops what it does not know: a word written wrong would say nothing.
    if lost := _lost(declared, ApiClient().sanitize_for_serialization(pod), ""):
        faults = [Fault(key, "no Pod has this", "look how it is spelled") for key in lost]
        raise ConfigError("is not the pod of a task", file=name, faults=faults)
    return pod


def _faults(declared: Any) -> list[Fault]:
    if not isinstance(declared, dict):
        return [Fault("", "is not a mapping", "write a Pod as for kubectl")]
    said = (declared.get("apiVersion"), declared.get("kind"))
    found = [] if said == ("v1", "Pod") else [Fault("kind", "is not a v1 Pod", "write a Pod")]
    spec = declared.get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    names = [one.get("name") for one in containers or () if isinstance(one, dict)]
    if names[:1] != [_CONTAINER]:
        fix = f"name the first one {_CONTAINER}: in it Airflow runs the task"
        found.append(Fault("spec.containers", f"the first is not {_CONTAINER}", fix))
    return found


def _lost(declared: Any, kept: Any, where: str) -> list[str]:
    """Paths of what was declared and is not kept."""
    if isinstance(declared, dict) and isinstance(kept, dict):
        return [
            path
            for key, value in declared.items()
            for path in (
                _lost(value, kept[key], f"{where}{key}.")
                if key in kept
                else [f"{where}{key}"]
                if value is not None
                else []
            )
        ]
    if isinstance(declared, list) and isinstance(kept, list):
        pairs = enumerate(zip(declared, kept, strict=False))
        return [path for n, (one, other) in pairs for path in _lost(one, other, f"{where}{n}.")]
    return []

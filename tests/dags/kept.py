"""Parses that keep what they build, in a home of a test's."""

import json
from pathlib import Path

from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

from opboost_ops.orchestration.dags import build_dags
from opboost_ops.orchestration.kept_dags import FOLDER, KeptDags


def parse(files: Path, home: Path, parties: tuple[str, ...] | None = None) -> dict[str, DAG]:
    return build_dags(files, parties, kept=KeptDags(parties, home))


def serialized(dags: dict[str, DAG]) -> str:
    # Sets have no order of their own.
    return json.dumps({n: DagSerialization.to_dict(dag) for n, dag in dags.items()}, default=sorted)


def entries(home: Path) -> list[Path]:
    return sorted(path for path in (home / FOLDER).rglob("*") if path.is_file())

"""The compose file of docker/one-airflow: what runs in a test is what it says."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[2] / "docker"


def services() -> dict[str, Any]:
    """The services of docker/one-airflow; variables have their defaults."""
    text = (FOLDER / "one-airflow" / "compose.yaml").read_text()
    filled: dict[str, Any] = yaml.safe_load(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text))["services"]
    return filled


def moved(declared: Mapping[str, str], places: Mapping[str, object]) -> dict[str, str]:
    """The same environment where the containers' folders and addresses are elsewhere."""
    found = dict(declared)
    for place, other in places.items():
        found = {name: value.replace(place, str(other)) for name, value in found.items()}
    return found


def bare(*paths: Path) -> dict[str, str]:
    """An environment that inherits nothing but where programs are."""
    path = os.pathsep.join([*map(str, paths), "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin"])
    return {"PATH": path, "LANG": "C.UTF-8", "NO_PROXY": "127.0.0.1", "PYTHONUNBUFFERED": "1"}

"""Compose files, read as docker-compose would: what runs in a test is what they say."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[2] / "docker"


def services(file: Path) -> dict[str, Any]:
    """The services of a compose file; its variables have their defaults."""
    filled: dict[str, Any] = _filled(yaml.safe_load(file.read_text())["services"])
    return filled


def environment(service: Mapping[str, Any]) -> dict[str, str]:
    """What a service's processes find in their environment."""
    return dict(service["environment"])


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


def _filled(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _filled(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_filled(entry) for entry in value]
    if isinstance(value, str):
        return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value)
    return value

"""Compose files, read as docker-compose would: what runs in a test is what they say."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[2] / "docker"


def services(file: Path | str, values: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The services of a compose file, or of ``compose.<name>.yaml``; variables are filled in."""
    path = FOLDER / f"compose.{file}.yaml" if isinstance(file, str) else file
    data = yaml.safe_load(path.read_text())
    found: dict[str, Any] = _filled(data["services"], values or {})
    return found


def environment(service: Mapping[str, Any]) -> dict[str, str]:
    """What a service's processes find in their environment."""
    declared = service["environment"]
    if isinstance(declared, list):
        return dict(entry.split("=", 1) for entry in declared)
    return dict(declared)


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


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _filled(entry, values) for name, entry in value.items()}
    if isinstance(value, list):
        return [_filled(entry, values) for entry in value]
    if isinstance(value, str):
        return re.sub(
            r"\$\{(\w+):([-?])([^}]*)\}",
            lambda found: values.get(found[1], found[3] if found[2] == "-" else f"<{found[1]}>"),
            value,
        )
    return value

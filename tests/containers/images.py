"""The images that compose files name: the project's, built here, and those of servers."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.containers.engine import Engine

ROOT = Path(__file__).parents[2]
STAND_INS = Path(__file__).with_name("stand-ins")

#: An image of Python on Debian, where the registry's cannot be had; servers' images are then made
#: from it with Debian's packages.
BASE = "OPBOOST_BASE_IMAGE"

#: Variables of the compose files, and what they are where nobody sets them.
SERVERS = {
    "POSTGRES_IMAGE": "docker.io/library/postgres:15",
    "REDIS_IMAGE": "docker.io/library/redis:7",
}

_OFFICIAL_BASE = "docker.io/library/python:3.11-slim"
_PULL, _BUILD = 300, 900


@dataclass(frozen=True)
class Images:
    """What was built or found.

    Attributes:
        own: The project's image.
        base: What it was built on.
        variables: Variables of the compose files.
    """

    own: str
    base: str
    variables: Mapping[str, str]


def prepare(engine: Engine, own: str = "opboost-test") -> Images:
    """Build the project's image, and have those of the servers.

    Args:
        engine: Builds them.
        own: Name of the project's image.
    """
    base = _base(engine)
    _build(engine, own, base, ROOT / "docker" / "Dockerfile", ROOT)
    variables = {"OPBOOST_IMAGE": own}
    for variable, official in SERVERS.items():
        variables[variable] = official
        if _pulled(engine, official):
            continue
        _named(official)
        name = variable.partition("_")[0].lower()
        variables[variable] = f"opboost-stand-in-{name}"
        file = STAND_INS / "Dockerfile"
        _build(engine, variables[variable], base, file, STAND_INS, f"--target={name}")
    return Images(own, base, variables)


def _base(engine: Engine) -> str:
    if _pulled(engine, _OFFICIAL_BASE):
        return _OFFICIAL_BASE
    return _named(_OFFICIAL_BASE)


def _named(official: str) -> str:
    """The base that the environment names in place of a registry's image."""
    named = os.environ.get(BASE)
    if not named:
        pytest.fail(
            f"{official} cannot be pulled. Set {BASE} to an image of Python 3.11 to 3.13 on Debian "
            "that is on this machine: what the registry lacks is then made from it."
        )
    return named


def _pulled(engine: Engine, image: str) -> bool:
    return engine.run("pull", image, seconds=_PULL).returncode == 0


def _build(engine: Engine, name: str, base: str, file: Path, folder: Path, *options: str) -> None:
    before = engine.run("image", "inspect", "--format", "{{.Id}}", name).stdout.strip()
    # The machine's own network: what it downloads is known by its hash or Debian's signature.
    whole = ["build", "--network", "host", "--build-arg", f"BASE={base}", *options]
    engine.ask(*whole, "--file", file, "--tag", name, folder, seconds=_BUILD)
    after = engine.run("image", "inspect", "--format", "{{.Id}}", name).stdout.strip()
    if before and before != after:
        engine.run("image", "rm", before)

"""Files that ship with the package, and libraries that are extras."""

from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from opboost_ops.errors import ConfigError


def shipped(name: Literal["schemas", "dags", "docs"]) -> Path:
    """A folder: inside an installed package, or beside it in a checkout.

    Args:
        name: ``schemas``, ``dags``, which Airflow reads, or ``docs``, to which pages link.

    Raises:
        FileNotFoundError: Neither is there.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"The folder {name} is not installed with this package.")


def require_extra(module: str, name: str, entry: str, extra: str) -> None:
    """Make sure that an extra is there, without importing it.

    Args:
        module: What is imported of it.
        name: As people call it.
        entry: What in the federation file asks for it.
        extra: Its name among this package's extras.

    Raises:
        ConfigError: It is not installed.
    """
    if find_spec(module) is None:
        raise ConfigError(
            f"{entry}, and {name} is not installed.",
            f"Install the extra: pip install 'opboost-ops[{extra}]'.",
        )

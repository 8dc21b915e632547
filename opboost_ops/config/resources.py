"""Files that ship with the package, and optional dependencies."""

from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from opboost_ops.errors import ConfigError


def shipped(name: Literal["schemas", "dags", "docs"]) -> Path:
    """Return a folder inside an installed package, or next to the package in a checkout.

    Args:
        name: ``schemas``, ``dags``, which Airflow reads, or ``docs``, to which pages link.

    Raises:
        FileNotFoundError: There is neither.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"The folder {name} is not installed with this package.")


def require_extra(module: str, name: str, entry: str, extra: str) -> None:
    """Raise unless an optional dependency is installed; does not import it.

    Args:
        module: A module of the dependency.
        name: Display name of the dependency.
        entry: What requires it, as the beginning of a sentence.
        extra: Name of this package's extra.

    Raises:
        ConfigError: The dependency is not installed.
    """
    if find_spec(module) is None:
        raise ConfigError(
            f"{entry}, and {name} is not installed.",
            f"Install the extra: pip install 'opboost-ops[{extra}]'.",
        )

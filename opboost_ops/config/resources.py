"""Files that ship with the package."""

from pathlib import Path
from typing import Literal


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

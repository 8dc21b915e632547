"""Files that ship with the package."""

from pathlib import Path


def schemas_folder() -> Path:
    """The folder ``schemas``: inside an installed package, or beside it in a checkout.

    Raises:
        FileNotFoundError: Neither is there.
    """
    return _folder("schemas")


def dags_folder() -> Path:
    """The folder ``dags``, which Airflow reads: found as `schemas_folder` is.

    Raises:
        FileNotFoundError: Neither is there.
    """
    return _folder("dags")


def docs_folder() -> Path:
    """The folder ``docs``, with the documents that pages link to: found as `schemas_folder` is.

    Raises:
        FileNotFoundError: Neither is there.
    """
    return _folder("docs")


def _folder(name: str) -> Path:
    package = Path(__file__).resolve().parents[1]
    for folder in (package / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"The folder {name} is not installed with this package.")

"""Files that ship with the package."""

from pathlib import Path


def schemas_folder() -> Path:
    """The folder ``schemas``: inside an installed package, or beside it in a checkout.

    Raises:
        FileNotFoundError: Neither is there.
    """
    package = Path(__file__).resolve().parent
    for folder in (package / "schemas", package.parent / "schemas"):
        if folder.is_dir():
            return folder
    raise FileNotFoundError("The folder schemas is not installed with this package.")

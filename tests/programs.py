"""Programs of the system's packages, which some tests need."""

import shutil

import pytest


def program(name: str, package: str = "") -> str:
    """Where a program is; the test fails, and names the package, where it is not installed."""
    found = shutil.which(name, path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/bin")
    if found is None:
        pytest.fail(f"{name} is missing: install the package {package or name}.")
    return found

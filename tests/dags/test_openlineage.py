"""No lineage leaves: the provider is not installed, and it is switched off where it would be."""

from importlib.metadata import distributions
from pathlib import Path

import pytest

from opboost_ops.orchestration.standalone import Standalone


def test_our_own_airflow_switches_it_off_whatever_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__DISABLED", "False")
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__TRANSPORT", '{"type": "http", "url": "http://x"}')
    environment = Standalone(tmp_path / "airflow", tmp_path, {}).environment
    settings = {n: v for n, v in environment.items() if n.startswith("AIRFLOW__OPENLINEAGE__")}
    assert settings == {"AIRFLOW__OPENLINEAGE__DISABLED": "True"}


def test_the_package_does_not_bring_the_provider() -> None:
    names = {found.metadata["Name"] for found in distributions()}
    assert [name for name in names if "openlineage" in name] == []

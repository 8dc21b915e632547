"""Experiments in their quick form, as the command line runs them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.papers import __main__ as command
from benchmarks.papers import experiments

#: Gives the summary of an experiment, and its section of the report.
Quick = Callable[..., tuple[Any, str]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Experiments are no part of the product: who changes one runs the slow tests."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Quick:
    """Run one; pictures go into the test's folder."""

    def run(name: str, *options: str) -> tuple[Any, str]:
        summary = tmp_path / f"{name}.json"
        arguments = [name, "--quick", "--json", "--work", str(tmp_path), "--summary", str(summary)]
        monkeypatch.setattr("sys.argv", ["papers", *arguments, *options])
        command.main()
        found = json.loads(summary.read_text())
        assert found["name"] == name and found["quick"]
        assert "--quick" in found["command"]
        (experiment,) = (each for each in experiments() if each.name == name)
        return found, experiment.section(found, tmp_path)

    return run

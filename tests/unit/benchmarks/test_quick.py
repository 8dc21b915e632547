"""Experiments in their quick form, and the figures of the documents."""

import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.papers import figures
from tests.unit.benchmarks.conftest import Quick


@pytest.mark.parametrize("name", ["federboost", "order", "table5"])
def test_a_quick_experiment_has_rows_a_section_and_its_pictures(
    name: str, quick: Quick, tmp_path: Path
) -> None:
    found, section = quick(name)
    assert found["rows"]
    pictures = re.findall(r"\]\(figures/(.+?)\)", section)
    assert (pictures == []) is (name == "table5")
    assert all((tmp_path / picture).stat().st_size > 1000 for picture in pictures)


@pytest.mark.parametrize("draw", [figures._laws, figures._loss])
def test_the_documents_figures_are_those_of_the_code(draw: Any, tmp_path: Path) -> None:
    committed = Path(__file__).parents[3] / "docs" / "figures"
    name = {
        "_laws": "output-laws.svg",
        "_loss": "loss-curves.svg",
    }[draw.__name__]
    assert draw(tmp_path / name).read_bytes() == (committed / name).read_bytes()

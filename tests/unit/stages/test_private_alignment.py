"""Whole runs with private alignment: the same people, the same model, and who learns what."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.federation import Workspace, small_credit
from tests.unit.stages.test_whole_runs import NAME, dataset


@pytest.mark.parametrize("parties", [1, 2, 3])
def test_the_model_is_the_same_to_the_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parties: int
) -> None:
    texts = {}
    for way in ("keyed", "private"):
        with monkeypatch.context() as patch:
            workspace = Workspace.write(
                tmp_path / way, dataset("binary", parties=parties), alignment=way
            )
            workspace.known_to(patch)
            workspace.all()
            (text,) = (workspace.folder / "a" / "models").rglob("model.txt")
            texts[way] = text.read_bytes()
            home = workspace.home("a")
            texts[f"{way} rows"] = (home / "alignment.arrow").read_bytes()
    assert texts["keyed"] == texts["private"]
    assert texts["keyed rows"] == texts["private rows"]

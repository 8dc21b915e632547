"""Whole runs whose label holder draws the values behind releases back before it trains."""

from pathlib import Path

import pytest

from opboost_ops.config.loading import load_federation
from opboost_ops.errors import ConfigError
from tests.federation import FIRST_RUN, Workspace
from tests.unit.stages.scoring_data import HOLDERS, NAME, dataset


def trained(folder: Path, patch: pytest.MonkeyPatch, redraw: bool) -> tuple[bytes, list[bytes]]:
    """The model of a run, and what the feature holders released for it."""
    workspace = Workspace.write(
        folder,
        dataset("binary", buckets=True),
        training={"trees": 20, "depth": 3, "redraw": redraw},
        scoring={"mode": "routed"},
    )
    workspace.plain()
    workspace.known_to(patch)
    workspace.all()
    exchange = workspace.folder / "exchange" / NAME / FIRST_RUN / "ranks"
    ranks = [(exchange / party / "table.parquet").read_bytes() for party in HOLDERS]
    model = workspace.folder / "a" / "models" / NAME / FIRST_RUN / "model.txt"
    return model.read_bytes(), ranks


def test_releases_are_the_same_and_the_model_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, released = trained(tmp_path / "plain", monkeypatch, redraw=False)
    drawn, same = trained(tmp_path / "drawn", monkeypatch, redraw=True)
    again, _ = trained(tmp_path / "again", monkeypatch, redraw=True)
    assert same == released
    assert drawn != plain
    assert drawn == again


def test_it_is_not_for_desensitised_scoring(tmp_path: Path) -> None:
    workspace = Workspace.write(tmp_path, dataset("binary"))
    workspace.edit_yaml("federation.yaml", lambda d: d["training"].update(redraw=True))
    with pytest.raises(ConfigError, match=r"training\.redraw: makes a model for clear rows"):
        load_federation(workspace.file)

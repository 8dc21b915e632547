"""A run with ``overlap: left`` leaves values of other people than a run of the common ones."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from opboost_ops import api
from opboost_ops.learning.registry.registry import Registry
from opboost_ops.pipeline.evaluation.reference import reference_of
from tests.federation import FIRST_RUN, SECOND_RUN, Workspace
from tests.integration.pipeline.scoring_data import HOLDERS, NAME, dataset


def written(folder: Path, patch: pytest.MonkeyPatch, overlap: str, **options: Any) -> Workspace:
    workspace = Workspace.write(folder / "federation", dataset("binary"), **options)
    workspace.known_to(patch)
    for holder in HOLDERS:
        workspace.edit_yaml(
            f"{holder}/policy.yaml", lambda d: d["alignment"].update(members=["all", "each"])
        )
    overlaps(workspace, overlap)
    return workspace


def overlaps(workspace: Workspace, overlap: str) -> None:
    workspace.edit_yaml("federation.yaml", lambda d: d.update(alignment={"overlap": overlap}))


@pytest.mark.slow
def test_a_change_of_overlap_and_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = written(tmp_path, monkeypatch, "common", training={"trees": 3, "depth": 3})
    workspace.all()
    overlaps(workspace, "left")
    later = Workspace(workspace.folder, SECOND_RUN)
    later.all()

    # Its metric is of everybody, the champion's of the common people.
    gate = later.home_json("a", "gate")
    assert not gate["promote"] and "other people" in gate["why"]

    models = api.models(workspace.folder)
    models.promote(SECOND_RUN)
    later.scoring().all()
    rows = pl.read_parquet(workspace.folder / "a" / "tables" / "score.parquet")
    lacks = ~rows["id"].is_in(pl.read_parquet(workspace.table_path("b0"))["id"].implode())
    served = api.Scorer(workspace.folder / "a", workspace.folder).score_frame(rows)
    assert set(served["state_b0"].filter(lacks)) == {"absent"}
    overlaps(workspace, "common")
    registry = Registry(workspace.folder / "a" / "models", NAME)
    assert reference_of(workspace.declared, registry) == FIRST_RUN
    models.promote(FIRST_RUN)
    # No score rests on values of a person whom a party lacks.
    found = api.Scorer(workspace.folder / "a", workspace.folder).score_frame(rows)
    assert set(found["state_b0"].filter(lacks)) == {"unknown"}
    assert found["score"].filter(lacks).null_count() == lacks.sum()

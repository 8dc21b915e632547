"""Federations whose feature holder releases all of its people, and is told nothing of them."""

from pathlib import Path
from typing import Any

import polars as pl

from opboost_ops.datasets.dataset import Dataset
from tests.federation import Workspace
from tests.unit.stages.scoring_data import dataset as scoring_data

TERMS = {"mode": "private", "decoys": "all"}


def dataset(task: str = "binary") -> Dataset:
    """Two parties of which each lacks some people; columns of every type, and a missing bit."""
    found = scoring_data(task)
    tables, features = dict(found.tables), dict(found.features)
    more = tables.pop("b1")
    tables["b0"] = tables["b0"].join(more, on="id").reverse()
    features["b0"] = {**features["b0"], **features.pop("b1")}
    new_rows = {"a": found.new_rows["a"], "b0": tables["b0"]}
    # Each has people whom the other one lacks.
    assert all(len(t) > len(tables["a"].join(tables["b0"], on="id")) for t in tables.values())
    return Dataset(**{**vars(found), "tables": tables, "features": features, "new_rows": new_rows})


def workspace(folder: Path, decoys: bool = True, task: str = "binary", **options: Any) -> Workspace:
    """A federation, with decoys or the same without."""
    made = Workspace.write(folder, dataset(task), alignment="private", **options)
    if decoys:
        allow(made)
        made.edit_yaml("federation.yaml", lambda file: file.update(alignment=TERMS))
    return made


def allow(made: Workspace, **rules: Any) -> None:
    """Let the feature holder's policy say yes to it."""
    rules = {"decoys": True, **rules}
    made.edit_yaml("b0/policy.yaml", lambda policy: policy.update(alignment=rules))


def model(made: Workspace) -> bytes:
    """The model that a run has made."""
    (found,) = (made.folder / "a" / "models").glob(f"*/{made.run}/model.*")
    return found.read_bytes()


def scores(made: Workspace) -> pl.DataFrame:
    """The scores of a scoring run, by person."""
    (file,) = (made.folder / "a").rglob("scores/**/*.parquet")
    return pl.read_parquet(file).sort("id")

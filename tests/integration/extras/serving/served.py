"""What tests of the `Scorer` ask of a federation that has scored once."""

from typing import Any

import polars as pl

from opboost_ops import api
from tests.federation import Workspace
from tests.integration.pipeline.scoring_data import score_files


def new_rows(workspace: Workspace) -> pl.DataFrame:
    return pl.read_parquet(workspace.folder / "a" / "tables" / "score.parquet")


def scorer_of(workspace: Workspace) -> api.Scorer:
    return api.Scorer(workspace.folder / "a", workspace.folder)


def rules(workspace: Workspace, **serve: Any) -> None:
    workspace.edit_yaml("a/policy.yaml", lambda policy: policy.update(serve=serve), agree=False)


def known_row(workspace: Workspace) -> dict[str, Any]:
    """Somebody whom the batch has scored."""
    (path,) = score_files(workspace)
    person = pl.read_parquet(path)["id"][0]
    return new_rows(workspace).filter(pl.col("id") == person).to_dicts()[0]

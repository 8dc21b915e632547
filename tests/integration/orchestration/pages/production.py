"""A version in production: single rows of the label holder scored, and what became of people."""

import numpy as np
import polars as pl

from opboost_ops import api
from opboost_ops.reports.outcomes import Outcomes
from tests.federation import Workspace


def in_production(workspace: Workspace) -> Outcomes:
    """Score moved rows one by one, after a scoring run, and report its outcomes.

    Args:
        workspace: The federation, whose new rows a run has scored.
    """
    site = workspace.folder / "credit"
    rows = pl.read_parquet(site / "tables" / "score.parquet")
    moved = rows.with_columns(pl.col("amount") * 3, pl.col("age") + 6)
    scorer = api.Scorer(site, workspace.folder, record=True)
    for _ in range(8):
        scorer.score_frame(moved)
    scorer.refresh()
    (file,) = (site / "scores").rglob("*.parquet")
    scores = pl.read_parquet(file)
    chance = np.random.default_rng(0).random(scores.height)
    label = pl.Series("default", (chance < scores["score"].to_numpy() + 0.3).astype(np.int64))
    scores.select("id").with_columns(label).write_parquet(workspace.folder / "outcomes.parquet")
    return api.outcomes(site, workspace.folder / "outcomes.parquet")

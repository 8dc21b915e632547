"""Dense ranks, straight from the stage."""

from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa

from opboost_ops.pipeline.stage import Home
from opboost_ops.pipeline.steps.rank import rank


def test_equal_values_share_a_rank(tmp_path: Path) -> None:
    """Ranks that break ties would tell rows apart that the mechanism released alike."""
    home = Home(tmp_path)
    home.write_table("randomised", pa.table({"x": [7, 3, 7, 9, 3, 1]}))
    parties = {"bank": SimpleNamespace()}
    federation = SimpleNamespace(training=SimpleNamespace(trainer="lightgbm"), parties=parties)
    context = SimpleNamespace(
        home=home,
        columns=lambda: [SimpleNamespace(name="x")],
        federation=federation,
        party="bank",
    )
    outcome = rank(context)  # type: ignore[arg-type]
    assert outcome.tables["ranks"].column("x").to_pylist() == [3, 2, 3, 4, 2, 1]
    assert outcome.documents["rank_values"] == {"x": [1, 3, 7, 9]}

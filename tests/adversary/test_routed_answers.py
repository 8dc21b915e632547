"""Routed answers disclose what the policy says, and nothing by their number or timing."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.feather as feather
import pytest

from opboost_ops.pipeline.steps.open_rows import opened_table
from tests.federation import Workspace
from tests.integration.pipeline.scoring_data import dataset
from tests.party_state import entries_of

#: What every cell of a column holds, night by night.
NIGHTS = (0.125, 0.375, 0.625, 0.125)


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """Trained with routed scoring."""
    workspace = Workspace.write(
        tmp_path / "federation",
        dataset("regression"),
        training={"trees": 10, "depth": 3},
        scoring={"mode": "routed"},
    )
    workspace.known_to(monkeypatch)
    workspace.all()
    return workspace


def answers(trained: Workspace, nights: Sequence[float] = NIGHTS) -> np.ndarray:
    """What the label holder opens of a column, by night and person."""
    seen: list[list[int]] = []
    for night, value in enumerate(nights):
        scoring = trained.scoring(f"{night + 10:016x}")
        scoring.edit_table("b0", lambda t, value=value: t.with_columns(pl.lit(value).alias("w")))
        scoring.all()
        opened = feather.read_table(scoring.home("a") / f"{opened_table('b0')}.arrow")
        seen.append(opened.column("w").to_pylist())
    return np.array(seen)


def routed_entries(workspace: Workspace, feature: str) -> int:
    entries = entries_of(workspace, "b0")
    return sum(e.kind == "routes" and e.feature == feature for e in entries)


@pytest.mark.slow
def test_once_tells_the_pinned_value_for_ever(trained: Workspace) -> None:
    seen = answers(trained)
    assert (seen == seen[0]).all()
    assert routed_entries(trained, "w") == 1


@pytest.mark.slow
def test_every_run_tells_todays_value_and_an_entry_says_so(trained: Workspace) -> None:
    trained.edit_yaml(
        "b0/policy.yaml", lambda p: p["features"]["w"].update(routed="every_run", budget=None)
    )
    seen = answers(trained)
    assert (seen[0] != seen[1]).all()
    assert (seen[0] == seen[-1]).all()
    # One of the pinned values in training, then one per run.
    assert routed_entries(trained, "w") == 1 + len(NIGHTS)

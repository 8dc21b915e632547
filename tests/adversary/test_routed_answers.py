"""Routed answers are exact; so the values that they are computed from are counted like releases."""

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.feather as feather
import pytest

from opboost_ops.stages.open_rows import opened_table
from tests.federation import Workspace
from tests.unit.stages.scoring_data import dataset

#: What the policies allow: so many values of a cell.
CAP = 2
#: What every cell of a column holds, night by night. The last night returns to the first.
NIGHTS = (0.125, 0.375, 0.625, 0.125)


@pytest.fixture
def routed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """Trained with routed scoring, where every policy caps what a cell may tell."""
    workspace = Workspace.write(
        tmp_path / "federation",
        dataset("regression"),
        training={"trees": 10, "depth": 3},
        scoring={"mode": "routed"},
    )
    workspace.known_to(monkeypatch)
    workspace.all()
    for policy in workspace.folder.glob("*/policy.yaml"):

        def cap(data: dict) -> None:
            for rule in data.get("features", {}).values():
                rule["max_changes"] = CAP

        workspace.edit_yaml(str(policy.relative_to(workspace.folder)), cap)
    return workspace


def test_a_cell_at_its_cap_repeats_its_last_answer_for_ever(routed: Workspace) -> None:
    """The label holder scores each night; a holder's values move each night."""
    seen: list[list[int]] = []
    for night, value in enumerate(NIGHTS):
        scoring = routed.scoring(f"{night + 10:016x}")
        scoring.edit_table("b0", lambda t, value=value: t.with_columns(pl.lit(value).alias("w")))
        scoring.all()
        opened = feather.read_table(scoring.home("a") / f"{opened_table('b0')}.arrow")
        seen.append(opened.column("w").to_pylist())
    answers = np.array(seen)
    different = [len(set(person)) for person in answers.T]
    assert max(different) <= CAP
    assert (answers[CAP:] == answers[CAP - 1]).all(), "nothing of any later night is told"
    moved = [person for person, count in enumerate(different) if count > 1]
    assert len(moved) > len(different) / 2, "the nights differ where the cap allows it"
    assert (answers[-1, moved] != answers[0, moved]).all(), "no return to an earlier value either"

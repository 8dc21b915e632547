"""`check` warns where the gate cannot tell a worse model."""

from pathlib import Path

import polars as pl
import pytest

from opboost_ops.pipeline.party.own_table import few_held_out
from opboost_ops.pipeline.party.site_faults import site_faults
from tests.federation import Workspace


@pytest.mark.parametrize(("people", "warned"), [(300, True), (3000, False)])
def test_few_held_out_rows_of_the_rarer_class_are_named(
    tmp_path: Path, people: int, warned: bool
) -> None:
    workspace = Workspace.write(tmp_path / "federation")

    def larger(table: pl.DataFrame) -> pl.DataFrame:
        label = workspace.declared.parties["credit"].label
        assert label is not None
        classes = table[label.column].unique(maintain_order=True)
        wanted = pl.concat([table] * (people // len(table) + 1))[:people]
        ids = pl.Series("id", [f"p{i}" for i in range(people)])
        halves = pl.Series(label.column, [classes[i % 2] for i in range(people)])
        return wanted.with_columns(ids, halves)

    workspace.edit_table("credit", larger)
    path = workspace.folder / "federation.yaml"
    _, contexts, _ = site_faults(path, workspace.declared)
    found = few_held_out(workspace.declared, contexts)
    assert bool(found) == warned
    if warned:
        assert "About 30 rows of credit's rarest class would be held out" in found[0]

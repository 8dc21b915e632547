"""Later stages ask the party's own home whether a check has passed, and no state of Airflow."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from polars.exceptions import PanicException

from opboost_ops.errors import ContractError, OpBoostError
from opboost_ops.pipeline.steps import assemble
from tests.federation import Workspace
from tests.party_state import entries_of

TIGHTER = """
training_frame:
  - type: expect_table_row_count_to_be_between
    kwargs: {min_value: 1000000}
"""


def spoil(workspace: Workspace, party: str) -> None:
    """So much is missing in a party's table that its policy refuses it."""
    column = next(iter(workspace.declared.parties[party].features))
    empty = pl.when(pl.int_range(pl.len()) % 3 == 0).then(pl.col(column))
    workspace.edit_table(party, lambda table: table.with_columns(empty.alias(column)))


@pytest.mark.parametrize("party", ["bank", "credit"])
def test_a_table_that_failed_its_check_is_used_by_no_later_stage(
    fresh: Workspace, party: str
) -> None:
    spoil(fresh, party)
    fresh.open()
    with pytest.raises(OpBoostError):
        fresh.step(party, "check_table")
    before = fresh.published()
    for step in fresh.steps():
        if step.party == party and step.stage not in ("check_table", "check_drift"):
            with pytest.raises(OpBoostError):
                fresh.step(party, step.stage)
    assert fresh.published() == before
    assert not [entry for entry in entries_of(fresh, party) if entry.kind == "release"]


def test_a_check_that_fails_when_it_is_repeated_has_not_passed(fresh: Workspace) -> None:
    fresh.until("train")
    folder: Path = fresh.folder / "credit"
    (folder / "expectations.yaml").write_text(TIGHTER)
    with pytest.raises(ContractError):
        fresh.step("credit", "check_frame")
    with pytest.raises(ContractError, match="data-quality check of the frame has not passed"):
        fresh.step("credit", "train")
    (folder / "expectations.yaml").unlink()
    fresh.step("credit", "check_frame")
    fresh.step("credit", "train")


def test_a_verdict_does_not_outlive_what_it_was_about(fresh: Workspace) -> None:
    fresh.until("train")
    for stage in ("check_table", "open_rows", "assemble"):
        fresh.step("credit", stage)
    with pytest.raises(ContractError, match="data-quality check of the frame has not passed"):
        fresh.step("credit", "train")
    fresh.step("credit", "check_frame")
    fresh.step("credit", "train")


def test_a_panic_while_a_table_is_stored_shows_no_cell(
    fresh: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def blocks(*_: object) -> Iterator[None]:
        raise PanicException("cell 4711")
        yield

    fresh.until("assemble")
    monkeypatch.setattr(assemble, "join_blocks", blocks)
    with pytest.raises(OpBoostError) as caught:
        fresh.step("credit", "assemble")
    assert "4711" not in str(caught.value)

"""A feature holder's table gives the same block by block as at once."""

from pathlib import Path

import polars as pl
import pytest

from opboost_ops.errors import ContractError
from opboost_ops.learning.boosters import lightgbm_backend
from opboost_ops.pipeline.inputs.raw_blocks import blocks, unchanged_blocks, whole_table
from opboost_ops.tables.spill import tables
from tests.federation import Workspace, small_credit
from tests.party_state import context_of, forget

PARTY = "bank"


@pytest.fixture
def written(tmp_path: Path) -> Workspace:
    weighted = {"trees": 1, "weight_column": "term_months"}
    workspace = Workspace.write(tmp_path / "one", small_credit(without="shop"), training=weighted)
    workspace.plain()
    return workspace


def test_a_frame_read_in_blocks_trains_the_same_model(
    written: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written.until("train")
    other = written.copy(tmp_path / "other", written.run)
    for workspace, cells in ((written, lightgbm_backend.FRAME_CELLS), (other, 0)):
        monkeypatch.setattr(lightgbm_backend, "FRAME_CELLS", cells)
        workspace.step("credit", "train")
    one, two = (each.home("credit") / "partial_model.txt" for each in (written, other))
    assert one.read_bytes() == two.read_bytes()


def test_blocks_are_the_table(written: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written.table_path(PARTY)
    table = pl.read_parquet(path)
    table.write_parquet(path, row_group_size=7)
    context = context_of(written, PARTY)
    whole = whole_table(context)
    for bound in ("MIN_ROWS", "MAX_ROWS"):
        monkeypatch.setattr(tables, bound, 30)
    found = list(blocks(context))
    # Small row groups are joined, so that what is done once a block does not count.
    assert {block.height for block in found[:-1]} == {30}
    assert pl.concat(found).equals(whole)
    site = context.site
    for row in (0, 29, 30, table.height - 1):
        forget(site, table["id"][row])
    features = list(context.federation.parties[PARTY].features)
    found = list(blocks(context, features))
    assert pl.concat(found).equals(whole_table(context, features))
    assert sum(block.height for block in found) == table.height - 4


def test_a_table_with_rows_more_or_less_than_were_checked_is_noticed_where_it_is_read(
    written: Workspace,
) -> None:
    written.until("digest_ids", PARTY)
    path, context = written.table_path(PARTY), context_of(written, PARTY)
    table = pl.read_parquet(path)
    for other in (table.head(-1), pl.concat([table, table.head(1)])):
        other.write_parquet(path)
        with pytest.raises(ContractError, match="rewritten while the run"):
            list(unchanged_blocks(context, ["id"]))

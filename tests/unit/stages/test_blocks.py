"""A feature holder's table gives the same block by block as at once."""

from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from opboost_ops.boosting import lightgbm_blocks
from opboost_ops.config.loading import load_policy, load_site
from opboost_ops.errors import ContractError
from opboost_ops.exchange.store import open_store
from opboost_ops.scratch import arrays
from opboost_ops.scratch import blocks as sizes
from opboost_ops.stages.raw_blocks import blocks, unchanged_blocks, whole_table
from opboost_ops.stages.stage import Context, Home
from tests.federation import Workspace, small_credit
from tests.party_state import forget

PARTY = "bank"


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    weighted = {"trees": 1, "class_weight": "balanced", "weight_column": "term_months"}
    workspace = Workspace.write(tmp_path / "one", small_credit(without="shop"), training=weighted)
    workspace.plain()
    workspace.known_to(monkeypatch)
    return workspace


def in_blocks(patch: pytest.MonkeyPatch, rows: int) -> None:
    patch.setattr(sizes, "FEWEST", rows)
    patch.setattr(sizes, "MOST", rows)


def test_what_is_published_and_charged_is_the_same(
    written: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = written.copy(tmp_path / "other", written.run)
    path = other.table_path(PARTY)
    pl.read_parquet(path).write_parquet(path, row_group_size=11)
    for party in ("credit", PARTY):
        # Some hundred people: what is sorted or looked up waits on the disk.
        with (other.folder / party / "site.yaml").open("a") as file:
            file.write("block_rows: 40\n")
    for workspace, rows in ((written, sizes.MOST), (other, 60)):
        with monkeypatch.context() as patch:
            workspace.known_to(patch)
            in_blocks(patch, rows)
            patch.setattr(arrays, "BLOCK", rows)
            workspace.until("evaluate")
    # Write times are no part of what is signed; the table's fingerprint stays at home.
    assert other.files("exchange") == written.files("exchange")
    assert other.files(PARTY, "cells") == written.files(PARTY, "cells")
    assert len(other.files(PARTY, "cells")) >= 3
    for party, least in ((PARTY, 5), ("credit", 5)):
        home, whole = other.files(party, "home"), written.files(party, "home")
        tables = [name for name in whole if name.endswith(".arrow")]
        assert len(tables) >= least
        # A table is kept in batches of a block: its rows are the same.
        for name in tables:
            assert home[name] == whole[name] or read(home[name]).equals(read(whole[name])), name
        assert home.keys() == whole.keys()
        pages = [name for name in whole if name.endswith(".html")]
        assert pages and all(home[name] == whole[name] for name in pages)


def read(raw: bytes) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(pa.ipc.open_file(raw).read_all()))


def context_of(workspace: Workspace) -> Context:
    site = load_site(workspace.folder / PARTY / "site.yaml")
    policy = load_policy(workspace.folder / PARTY / "policy.yaml")
    home = Home(workspace.home(PARTY))
    store = open_store(site.store)
    return Context(workspace.declared, "0", PARTY, site, policy, home, store, "", 0.0)


def test_a_frame_read_in_blocks_trains_the_same_model(
    written: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written.until("train")
    other = written.copy(tmp_path / "other", written.run)
    for workspace, cells in ((written, lightgbm_blocks.LARGE), (other, 0)):
        with monkeypatch.context() as patch:
            workspace.known_to(patch)
            patch.setattr(lightgbm_blocks, "LARGE", cells)
            patch.setattr(lightgbm_blocks, "_BLOCK", 400)
            workspace.step("credit", "train")
    one, two = (each.home("credit") / "partial_model.txt" for each in (written, other))
    assert one.read_bytes() == two.read_bytes()


def test_blocks_are_the_table(written: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written.table_path(PARTY)
    table = pl.read_parquet(path)
    table.write_parquet(path, row_group_size=7)
    context = context_of(written)
    whole = whole_table(context)
    in_blocks(monkeypatch, 30)
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
    path, context = written.table_path(PARTY), context_of(written)
    table = pl.read_parquet(path)
    for other in (table.head(-1), pl.concat([table, table.head(1)])):
        other.write_parquet(path)
        with pytest.raises(ContractError, match="rewritten while the run"):
            list(unchanged_blocks(context, ["id"]))

"""No order of a private table leaves with its ID digests, and all that comes after fits."""

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pytest

from opboost_ops.config.loading import load_site
from opboost_ops.errors import ContractError
from opboost_ops.exchange.artifact import Artifact
from opboost_ops.exchange.manifest import parse_manifest
from opboost_ops.mechanisms import noise
from opboost_ops.stages.positions import binary, rising
from tests.federation import Workspace, small_credit

ROWS = 1000


@pytest.fixture
def sorted_by_income(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """The bank's table lies in the order of its customers' income, unknown ones first."""
    made = Workspace.write(tmp_path / "credit", small_credit(3, ROWS))
    made.known_to(monkeypatch)
    made.plain()
    made.edit_table("bank", lambda table: table.sort("income", nulls_last=False))
    return made


def received(workspace: Workspace, kind: str, party: str) -> pa.Table:
    files = workspace.store.get(f"credit_scoring/{workspace.run}/{kind}/{party}")
    assert files is not None
    return Artifact(parse_manifest(files["manifest.json"], kind), files).table


def places_of(workspace: Workspace, party: str) -> np.ndarray:
    """Where each row of a party's table is in the list of digests that it has published."""
    workspace.until("align")
    published = received(workspace, "digests", party).column("digest").to_pylist()
    site = load_site(workspace.folder / party / "site.yaml")
    key = noise.receiver_secret(noise.read_secret(site.alignment_key), "alignment:credit_scoring")
    ids = pl.read_parquet(workspace.table_path(party)).get_column("id").to_arrow()
    rank = {digest: place for place, digest in enumerate(published)}
    found = noise.person_keys(key, ids, "string")
    return np.array([rank[bytes(digest)] for digest in found])


def test_the_place_of_a_digest_tells_nothing_of_its_row(sorted_by_income: Workspace) -> None:
    """Finding 1: Spearman 0.9999996 with the income, and every missing income was identified."""
    table = pl.read_parquet(sorted_by_income.table_path("bank"))
    place = places_of(sorted_by_income, "bank")
    income = table.get_column("income").to_numpy()
    known = ~np.isnan(income)
    both = pl.DataFrame({"place": place[known], "income": income[known]})
    correlation = both.select(pl.corr("place", "income", method="spearman")).item()
    # Five standard errors of independent orders.
    assert abs(correlation) < 5 / np.sqrt(known.sum())
    missing = np.sort(place[~known])
    assert len(missing) >= 10
    # Those without an income lay at the head; uniform places have their mean in the middle.
    error = ROWS / np.sqrt(12 * len(missing))
    assert abs(missing.mean() - ROWS / 2) < 5 * error


def test_published_digests_are_the_same_for_any_order_of_the_table(
    sorted_by_income: Workspace,
) -> None:
    again = sorted_by_income.copy(sorted_by_income.folder.parent / "again", "0" * 15 + "9")
    sorted_by_income.until("align")
    published = received(sorted_by_income, "digests", "bank")
    order = published.column("digest").to_pylist()
    assert order == sorted(order)
    with pytest.MonkeyPatch.context() as patch:
        again.known_to(patch)
        again.edit_table("bank", lambda table: table.sample(fraction=1, shuffle=True, seed=4))
        again.until("align")
    assert received(again, "digests", "bank").equals(published)


def test_positions_are_translated_once_and_every_row_meets_itself(
    sorted_by_income: Workspace,
) -> None:
    """The common order goes by the digests, as ever, and each party finds its own people in it."""
    sorted_by_income.until("rank", "bank")
    ids = {}
    for party, name in {"credit": "alignment", "bank": "positions", "shop": "positions"}.items():
        home = sorted_by_income.home(party)
        rows = feather.read_table(home / f"{name}.arrow").column("position").to_numpy()
        table = pl.read_parquet(sorted_by_income.table_path(party))
        ids[party] = table.get_column("id").gather(rows).to_list()
    assert ids["bank"] == ids["credit"] == ids["shop"]
    assert len(set(ids["bank"])) == len(ids["bank"]) > 100
    facts = sorted_by_income.home_json("credit", "alignment")
    listed = feather.read_table(sorted_by_income.home("bank") / "digests.arrow")
    digests = listed.column("digest").to_pylist()
    positions = received(sorted_by_income, "alignment", "bank").column("position").to_pylist()
    train = [digests[p] for p in positions[: facts["train"]]]
    held = [digests[p] for p in positions[facts["train"] :]]
    assert train == sorted(train)
    assert held == sorted(held)
    # The held-out ones are those with the least last eight bytes.
    assert max(d[8:] for d in held) < min(d[8:] for d in train)


def test_digests_in_another_order_are_not_aligned(sorted_by_income: Workspace) -> None:
    sorted_by_income.until("align")
    table = received(sorted_by_income, "digests", "bank")
    swapped = table.take([1, 0, *range(2, table.num_rows)])
    sorted_by_income.forge("digests", "bank", "bank", table=swapped)
    with pytest.raises(ContractError, match="in another order than theirs") as caught:
        sorted_by_income.step("credit", "align")
    assert "older version" in caught.value.remedy
    assert not [place for place in sorted_by_income.published() if place.startswith("alignment")]


@pytest.mark.parametrize("byte", [0, 7, 8, 15])
def test_digests_rise_as_their_bytes_do(byte: int) -> None:
    generator = np.random.default_rng(byte)
    digests = np.zeros((300, 16), dtype=np.uint8)
    digests[:, byte] = generator.permutation(300) % 256
    digests[:, 3] = np.arange(300) // 256 * 255
    order = rising(digests)
    assert sorted(order) == list(range(300))
    listed = binary(digests[order]).to_pylist()
    assert listed == sorted(listed)

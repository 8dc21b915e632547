"""`opboost init` on tables as people have them."""

from pathlib import Path

import polars as pl
import pytest
import yaml

from opboost_ops.cli import init
from opboost_ops.errors import ConfigError

BANK = "id,balance,rating\n1,10.5,a\n2,20.5,b\n3,,a\n4,5.25,c\n"
SHOP = "id,spend,late\n1,3,0\n2,4,1\n3,5,0\n4,6,1\n"


def start(folder: Path, bank: str, shop: str = SHOP) -> Path:
    (folder / "bank.csv").write_text(bank)
    (folder / "shop.csv").write_text(shop)
    target = folder / "federation"
    init.command(
        target,
        [f"bank={folder / 'bank.csv'}", f"shop={folder / 'shop.csv'}"],
        "shop.late",
        "id",
    )
    return target


@pytest.mark.parametrize("end", ["\n", "\n\n\n", "\r\n", "\r\n\r\n"])
def test_a_blank_line_at_the_end_is_no_person(tmp_path: Path, end: str) -> None:
    target = start(tmp_path, BANK + end, SHOP + end)
    bank = pl.read_parquet(target / "bank" / "tables" / "train.parquet")
    assert bank.get_column("id").to_list() == [1, 2, 3, 4]
    assert bank.get_column("balance").to_list() == [10.5, 20.5, None, 5.25]
    shop = pl.read_parquet(target / "shop" / "tables" / "train.parquet")
    assert shop.get_column("late").to_list() == [0, 1, 0, 1]
    data = yaml.safe_load((target / "federation.yaml").read_text())
    assert data["parties"]["shop"]["label"] == {"column": "late", "task": "binary"}
    assert data["id"] == {"column": "id", "type": "integer"}


def test_a_blank_line_keeps_text_ids(tmp_path: Path) -> None:
    text = "id,balance\na1,1\na2,2\n\n"
    target = start(tmp_path, text, "id,spend,late\na1,1,0\na2,2,1\n\n")
    bank = pl.read_parquet(target / "bank" / "tables" / "train.parquet")
    assert bank.get_column("id").to_list() == ["a1", "a2"]


def test_bounds_are_left_blank_and_required(tmp_path: Path) -> None:
    from opboost_ops.config.loading import load_federation

    target = start(tmp_path, BANK)
    data = yaml.safe_load((target / "federation.yaml").read_text())
    assert data["parties"]["bank"]["features"]["balance"]["bounds"] is None
    with pytest.raises(ConfigError) as caught:
        load_federation(target / "federation.yaml")
    places = {fault.where for fault in caught.value.faults}
    assert places == {
        "parties.bank.features.balance.bounds",
        "parties.bank.features.rating.categories",
    }


def test_id_types_that_differ(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="integer in one table and a string in another"):
        start(tmp_path, BANK, "id,spend,late\na,1,0\nb,2,1\n")
    assert not (tmp_path / "federation").exists()


@pytest.mark.parametrize("content", ["", "PAR1 is no table"])
def test_a_file_that_is_no_table(tmp_path: Path, content: str) -> None:
    path = tmp_path / "bank.parquet"
    path.write_text(content)
    (tmp_path / "shop.csv").write_text(SHOP)
    with pytest.raises(ConfigError, match=r"bank\.parquet"):
        init.command(
            tmp_path / "f", [f"bank={path}", f"shop={tmp_path / 'shop.csv'}"], "shop.late", "id"
        )
    assert not (tmp_path / "f").exists()


def test_an_unknown_label(tmp_path: Path) -> None:
    (tmp_path / "bank.csv").write_text(BANK)
    (tmp_path / "shop.csv").write_text(SHOP)
    tables = [f"bank={tmp_path / 'bank.csv'}", f"shop={tmp_path / 'shop.csv'}"]
    for label, word in (("shop.nobody", "no column nobody"), ("late", "PARTY.COLUMN")):
        with pytest.raises(ConfigError, match=word):
            init.command(tmp_path / "f", tables, label, "id")
    assert not (tmp_path / "f").exists()

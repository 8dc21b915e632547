"""`opboost init` on tables as people have them."""

from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from opboost_ops.cli import bounds, init
from opboost_ops.config.loading import load_federation, load_policy, load_site
from opboost_ops.config.source import Source
from opboost_ops.errors import ConfigError
from opboost_ops.stages.sources import copy

BANK = "id,balance,rating\n1,10.5,a\n2,20.5,b\n3,,a\n4,5.25,c\n"
SHOP = "id,spend,late\n1,3,0\n2,4,1\n3,5,0\n4,6,1\n"


def start(
    folder: Path, bank: str, shop: str = SHOP, identity: tuple[str, ...] = ("id",), **more: Any
) -> Path:
    (folder / "bank.csv").write_text(bank)
    (folder / "shop.csv").write_text(shop)
    target = folder / "federation"
    init.command(
        target,
        [f"bank={folder / 'bank.csv'}", f"shop={folder / 'shop.csv'}"],
        "shop.late",
        list(identity),
        **more,
    )
    return target


def table_of(target: Path, party: str, text: tuple[str, ...] = ()) -> pl.DataFrame:
    """What a run would read."""
    source = load_site(target / party / "site.yaml").tables["federation"].train
    assert isinstance(source, Source)
    copy(source, party, target / "copy.parquet", text, "id")
    return pl.read_parquet(target / "copy.parquet")


@pytest.mark.parametrize("end", ["\n", "\n\n\n", "\r\n", "\r\n\r\n"])
def test_a_blank_line_at_the_end_is_no_person(tmp_path: Path, end: str) -> None:
    target = start(tmp_path, BANK + end, SHOP + end)
    bank = table_of(target, "bank")
    assert bank.get_column("id").to_list() == [1, 2, 3, 4]
    assert bank.get_column("balance").to_list() == [10.5, 20.5, None, 5.25]
    shop = table_of(target, "shop")
    assert shop.get_column("late").to_list() == [0, 1, 0, 1]
    data = yaml.safe_load((target / "federation.yaml").read_text())
    assert data["parties"]["shop"]["label"] == {
        "column": "late",
        "task": "binary",
        "classes": [0, 1],
    }
    assert data["id"] == {"column": "id", "type": "integer"}


def test_a_blank_line_keeps_text_ids(tmp_path: Path) -> None:
    text = "id,balance\na1,1\na2,2\n\n"
    target = start(tmp_path, text, "id,spend,late\na1,1,0\na2,2,1\n\n")
    bank = table_of(target, "bank", ("id",))
    assert bank.get_column("id").to_list() == ["a1", "a2"]


def test_bounds_are_left_blank_and_required(tmp_path: Path) -> None:
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
        ids = pl.DataFrame({"id": [1, 2], "balance": [1, 2]})
        ids.write_parquet(tmp_path / "bank.parquet")
        (tmp_path / "shop.csv").write_text("id,spend,late\na,1,0\nb,2,1\n")
        tables = [f"bank={tmp_path / 'bank.parquet'}", f"shop={tmp_path / 'shop.csv'}"]
        init.command(tmp_path / "federation", tables, "shop.late", ["id"])
    assert not (tmp_path / "federation").exists()


@pytest.mark.parametrize("content", ["", "PAR1 is no table"])
def test_a_file_that_is_no_table(tmp_path: Path, content: str) -> None:
    path = tmp_path / "bank.parquet"
    path.write_text(content)
    (tmp_path / "shop.csv").write_text(SHOP)
    with pytest.raises(ConfigError, match=r"bank\.parquet"):
        init.command(
            tmp_path / "f", [f"bank={path}", f"shop={tmp_path / 'shop.csv'}"], "shop.late", ["id"]
        )
    assert not (tmp_path / "f").exists()


def test_an_unknown_label(tmp_path: Path) -> None:
    (tmp_path / "bank.csv").write_text(BANK)
    (tmp_path / "shop.csv").write_text(SHOP)
    tables = [f"bank={tmp_path / 'bank.csv'}", f"shop={tmp_path / 'shop.csv'}"]
    for label, word in (("shop.nobody", "no column nobody"), ("late", "PARTY.COLUMN")):
        with pytest.raises(ConfigError, match=word):
            init.command(tmp_path / "f", tables, label, ["id"])
    assert not (tmp_path / "f").exists()


WIDE = "KDNR;Total Pay;day;old;empty;same;note;is_test;;x1;x2;x3;x4\n" + "".join(
    f"00{i};{i},5;2020-01-{i:02};{'true' if i % 2 else 'false'};;7;free text {i};{i % 2};{i};"
    f"{i};{i + 1};{i + 2};{i + 3}\n"
    for i in range(1, 29)
)
LATE = "id,late\n" + "".join(f"00{i},{'yes' if i % 2 else 'no'}\n" for i in range(1, 29))


def test_what_is_no_feature_is_left_out_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = start(tmp_path, WIDE, LATE, ("id", "bank=KDNR"), positive="yes")
    told = capsys.readouterr().out
    for column, why in (
        ("empty", "no value"),
        ("same", "one value"),
        ("note", "free text"),
        ("is_test", "training.holdout"),
        ("", "no name"),
    ):
        assert f"Left out bank.{column}: " in told and why in told
    assert "free text 1" not in told
    data = yaml.safe_load((target / "federation.yaml").read_text())
    features = data["parties"]["bank"]["features"]
    assert list(features) == ["Total_Pay", "day", "old", "x1", "x2", "x3", "x4"]
    assert features["old"]["type"] == "boolean" and "bounds" not in features["old"]
    assert features["day"]["unit"] == "days"
    assert data["parties"]["shop"]["label"]["classes"] == ["no", "yes"]
    policy = load_policy(target / "bank" / "policy.yaml")
    assert policy.raw_column("id", "id") == "KDNR"
    assert policy.features["Total_Pay"].column == "Total Pay"
    source = load_site(target / "bank" / "site.yaml").tables["federation"].train
    assert isinstance(source, Source)
    assert (source.separator, source.decimal) == (";", ",")
    with pytest.raises(ConfigError) as caught:
        load_federation(target / "federation.yaml")
    (fault,) = caught.value.faults
    assert fault.where == "parties.bank.features.*.bounds"
    assert "6 features: Total_Pay, day, x1" in fault.problem
    assert "opboost bounds" in fault.suggestion


def test_one_table_of_bounds_instead_of_many_faults(tmp_path: Path) -> None:
    target = start(tmp_path, WIDE, LATE, ("id", "bank=KDNR"), positive="yes")
    template = target / "bounds.csv"
    lines = template.read_text().splitlines()
    assert len(lines) == 7 and lines[1].startswith("bank,Total_Pay,,lower upper,")
    with pytest.raises(ConfigError, match=r"3, bank\.day: lower and upper are no numbers"):
        template.write_text("\n".join([*lines[:2], "bank,day,days,,soon,later,,,,", *lines[3:]]))
        bounds.command(target)
    filled = [line.replace("lower upper,,", "lower upper,0,100") for line in lines]
    filled[2] = "bank,day,days,,2020-01-01,2021-01-01,,,,"
    template.write_text("\n".join(filled))
    bounds.command(target)
    declared = load_federation(target / "federation.yaml").parties["bank"].features
    assert declared["x1"].bounds == (0, 100)
    assert declared["day"].bounds == (18262, 18628)
    assert (date(2020, 1, 1) - date(1970, 1, 1)).days == 18262


def test_categories_and_a_rest_from_the_table(tmp_path: Path) -> None:
    target = start(tmp_path, BANK)
    template = target / "bounds.csv"
    head = template.read_text().splitlines()[0].replace(",", ";")
    template.write_text(
        f"{head}\nbank;balance;;;0,5;100;;;;3\nbank;rating;;;;;;a | b;other;\n", encoding="utf-8"
    )
    bounds.command(target)
    declared = load_federation(target / "federation.yaml").parties["bank"].features
    assert declared["balance"].bounds == (0.5, 100)
    assert declared["rating"].categories == ("a", "b", "other")
    assert declared["rating"].rest == "other"


def test_init_refuses_what_check_would_refuse(tmp_path: Path) -> None:
    bank = "id,balance\n1,1\n1,2\n,3\n"
    shop = "id,late\n7,0\n8,\n9,1\n"
    with pytest.raises(ConfigError) as caught:
        start(tmp_path, bank, shop)
    told = {fault.where: fault.problem for fault in caught.value.faults}
    assert told["tables"] == "nobody is in all of them"
    assert "1 of 3 rows have no label" in told["shop, late"]
    problems = [fault.problem for fault in caught.value.faults if fault.where == "bank, id"]
    assert "1 of 3 rows have no ID" in problems[0] and "2 of 3 rows" in problems[1]
    assert not (tmp_path / "federation").exists()


def test_a_label_of_words_needs_its_positive_class(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="which one is the positive one") as caught:
        start(tmp_path, WIDE, LATE, ("id", "bank=KDNR"))
    assert "--positive yes" in str(caught.value)
    with pytest.raises(ConfigError, match="none of the classes no and yes"):
        start(tmp_path, WIDE, LATE, ("id", "bank=KDNR"), positive="maybe")
    assert not (tmp_path / "federation").exists()

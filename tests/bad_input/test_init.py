"""`opboost init` on tables as people have them."""

from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from opboost_ops import api
from opboost_ops.api import federate
from opboost_ops.cli import init
from opboost_ops.config.federation import RULES, Federation
from opboost_ops.config.loading import load_federation, load_policy, load_site
from opboost_ops.config.source import Source
from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.tables.columns import Expected
from opboost_ops.tables.copies import copy
from tests.fuzz.targets import CORPUS

BANK = "id,balance,rating\n1,10.5,a\n2,20.5,b\n3,,a\n4,5.25,c\n"
SHOP = "id,spend,late\n1,3,0\n2,4,1\n3,5,0\n4,6,1\n"


def start(folder: Path, bank: str, shop: str = SHOP, identity: str = "id", **more: Any) -> Path:
    """The folder with a folder of each party, and with the tables."""
    folder.mkdir(exist_ok=True)
    (folder / "bank.csv").write_text(bank)
    (folder / "shop.csv").write_text(shop)
    target = folder / "parties"
    init.init_command("bank", str(folder / "bank.csv"), identity, target / "bank")
    theirs = more.pop("shop_identity", "id")
    init.init_command(
        "shop", str(folder / "shop.csv"), theirs, target / "shop", label="late", **more
    )
    return target


def offer_of(target: Path, party: str) -> Any:
    return yaml.safe_load((target / party / f"{party}-offer.yaml").read_text())


def join(target: Path) -> Federation:
    """The federation that the offers make."""
    offers = [target / party / f"{party}-offer.yaml" for party in ("bank", "shop")]
    return load_federation(federate(offers, target / "federation.yaml").file)


def table_of(target: Path, party: str, text: tuple[str, ...] = ()) -> pl.DataFrame:
    """What a run would read."""
    source = load_site(target / party / "site.yaml").tables["federation"].train
    assert isinstance(source, Source)
    columns = {name: Expected(name, "text") for name in text}
    copy(source, party, target / "copy.parquet", columns, "id")
    return pl.read_parquet(target / "copy.parquet")


@pytest.mark.parametrize("name", ["panic.parquet", "schema_panic.parquet"])
def test_damage_that_the_reader_has_not_foreseen_is_told_like_any(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(ContractError, match=r"truncated or not a Parquet file"):
        init.init_command("bank", str(CORPUS / "parquet" / name), "id", tmp_path / "bank")
    assert not (tmp_path / "bank").exists()


@pytest.mark.parametrize("end", ["\n", "\n\n\n", "\r\n", "\r\n\r\n"])
def test_a_blank_line_at_the_end_is_no_person(tmp_path: Path, end: str) -> None:
    target = start(tmp_path, BANK + end, SHOP + end)
    bank = table_of(target, "bank")
    assert bank.get_column("id").to_list() == [1, 2, 3, 4]
    assert bank.get_column("balance").to_list() == [10.5, 20.5, None, 5.25]
    shop = table_of(target, "shop")
    assert shop.get_column("late").to_list() == [0, 1, 0, 1]
    label = {"column": "late", "task": "binary", "classes": [0, 1]}
    assert offer_of(target, "shop")["label"] == label
    assert offer_of(target, "bank")["id"] == {"column": "id", "types": ["integer", "string"]}


def test_people_whom_several_columns_name(tmp_path: Path) -> None:
    bank = "born,name,rating\n1990-02-01,Li,a\n1990-02-01,Ng,b\n1991-02-01,Li,a\n"
    shop = bank.replace("Li", " LI").replace("rating", "late")
    several = "born,name"
    target = start(tmp_path, bank, shop, several, shop_identity=several, positive="a")
    offer = offer_of(target, "bank")
    offer["features"]["rating"]["categories"] = ["a", "b"]
    (target / "bank" / "bank-offer.yaml").write_text(yaml.safe_dump(offer))
    federation = join(target)
    assert federation.id.columns == ("born", "name") and federation.id.normalise == RULES
    assert set(federation.parties["bank"].features) == {"rating"}
    assert "id_column" not in yaml.safe_load((target / "bank" / "policy.yaml").read_text())
    twice = bank + "1991-02-01, li ,c\n"
    with pytest.raises(ConfigError) as caught:
        start(tmp_path / "twice", twice, shop, several)
    assert "2 of 4 rows have an ID that another row has, too" in str(caught.value.faults[0])


def test_an_unknown_label(tmp_path: Path) -> None:
    (tmp_path / "shop.csv").write_text(SHOP)
    with pytest.raises(ConfigError, match="no column nobody"):
        init.init_command("shop", str(tmp_path / "shop.csv"), "id", tmp_path / "f", label="nobody")
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
    target = start(tmp_path, WIDE, LATE, "KDNR", positive="yes")
    told = capsys.readouterr().out
    for column, why in (
        ("empty", "no value"),
        ("same", "one value"),
        ("note", "free text"),
        ("is_test", "to a test set"),
        ("", "no name"),
    ):
        assert f"Left out {column}: " in told and why in told
    assert "free text 1" not in told
    features = offer_of(target, "bank")["features"]
    assert list(features) == ["Total_Pay", "day", "old", "x1", "x2", "x3", "x4"]
    assert features["old"]["type"] == "boolean" and "bounds" not in features["old"]
    assert features["day"]["unit"] == "days"
    assert offer_of(target, "shop")["label"]["classes"] == ["no", "yes"]
    policy = load_policy(target / "bank" / "policy.yaml")
    assert policy.raw_column("id", "id") == "KDNR"
    assert policy.features["Total_Pay"].column == "Total Pay"
    source = load_site(target / "bank" / "site.yaml").tables["federation"].train
    assert isinstance(source, Source)
    assert (source.separator, source.decimal) == (";", ",")
    with pytest.raises(ConfigError) as caught:
        join(target)
    (fault,) = caught.value.faults
    assert fault.where == "parties.bank.features.*.bounds"
    assert "6 features: Total_Pay, day, x1" in fault.problem
    assert "opboost bounds" in fault.suggestion


def test_one_table_of_bounds_instead_of_many_faults(tmp_path: Path) -> None:
    target = start(tmp_path, WIDE, LATE, "KDNR", positive="yes")
    template = target / "bank" / "bounds.csv"
    lines = template.read_text().splitlines()
    assert len(lines) == 7 and lines[1].startswith("Total_Pay,,lower upper,")
    with pytest.raises(
        ConfigError, match=r"3, day: lower and upper are not dates.*for example 2020-01-31"
    ):
        template.write_text("\n".join([*lines[:2], "day,days,,soon,later,,,,", *lines[3:]]))
        init.bounds_command(target / "bank")
    with pytest.raises(ConfigError, match="line 2 has the same feature"):
        template.write_text("\n".join([*lines[:2], ",,,,,,,,,,", *lines[1:]]))
        init.bounds_command(target / "bank")
    for bound in ("inf", "1_000", "20200131"):
        template.write_text("\n".join([lines[0], f"day,days,,0,{bound},,,,", *lines[3:]]))
        with pytest.raises(ConfigError, match="lower and upper are not dates"):
            init.bounds_command(target / "bank")
    filled = [line.replace("lower upper,,", "lower upper,0,100") for line in lines]
    filled[2] = "day,days,,2020-01-01,2021-01-01,,,,"
    template.write_text("\n".join(filled))
    init.bounds_command(target / "bank")
    declared = join(target).parties["bank"].features
    assert declared["x1"].bounds == (0, 100)
    assert declared["day"].bounds == (18262, 18628)
    assert (date(2020, 1, 1) - date(1970, 1, 1)).days == 18262


def test_categories_and_a_rest_from_the_table(tmp_path: Path) -> None:
    target = start(tmp_path, BANK)
    template = target / "bank" / "bounds.csv"
    head = template.read_text().splitlines()[0].replace(",", ";")
    template.write_text(
        f"{head}\nbalance;;;0,5;100;;;;3\nrating;;;;;;a | b;other;\n", encoding="utf-8"
    )
    init.bounds_command(target / "bank")
    declared = join(target).parties["bank"].features
    assert declared["balance"].bounds == (0.5, 100)
    assert declared["rating"].categories == ("a", "b", "other")
    assert declared["rating"].rest == "other"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"task": "clustering"}, "There is no task clustering"),
        ({"epsilon": -1.0}, "An epsilon is a number above 0"),
        ({"private_edges": -1.0}, "An epsilon is a number above 0"),
        ({"queries": 0}, "allows none"),
        ({"label": "id"}, "is the ID"),
        ({"dialect": {"decimal": ","}}, "is a Parquet file"),
        ({"query": "SELECT 1"}, "is a Parquet file"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    options: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    pl.DataFrame({"id": ["a", "b"], "x": [1, 2]}).write_parquet(tmp_path / "bank.parquet")
    with pytest.raises(ConfigError, match=problem):
        api.init(tmp_path / "new", "bank", tmp_path / "bank.parquet", "id", **options)
    assert not (tmp_path / "new").exists()


def test_a_table_without_rows_is_refused(tmp_path: Path) -> None:
    pl.DataFrame({"id": [], "x": []}, {"id": pl.Int64, "x": pl.Int64}).write_csv(tmp_path / "b.csv")
    with pytest.raises(ConfigError, match="no rows"):
        api.init(tmp_path / "new", "bank", tmp_path / "b.csv", "id")
    assert not (tmp_path / "new").exists()


def test_init_refuses_what_check_would_refuse(tmp_path: Path) -> None:
    (tmp_path / "shop.csv").write_text("id,late\n7,0\n8,\n8,1\n,1\n")
    with pytest.raises(ConfigError) as caught:
        init.init_command("shop", str(tmp_path / "shop.csv"), "id", tmp_path / "f", label="late")
    told = [(fault.where, fault.problem) for fault in caught.value.faults]
    assert [where for where, _ in told] == ["shop, id", "shop, id", "shop, late"]
    assert "1 of 4 rows have no ID" in told[0][1] and "2 of 4 rows" in told[1][1]
    assert "keep one row per person" in str(caught.value)
    assert "1 of 4 rows have no label" in told[2][1]
    assert not (tmp_path / "f").exists()

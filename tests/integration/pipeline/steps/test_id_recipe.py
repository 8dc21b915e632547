"""IDs made by a recipe: texts in one form, columns joined, and rows of a person aggregated."""

import math
import unicodedata
from datetime import date, datetime
from pathlib import Path
from typing import Any, get_args

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from opboost_ops.config.federation import IdColumn, Normalisation
from opboost_ops.config.site import Tables
from opboost_ops.errors import ContractError
from opboost_ops.exchange.sealed.ids import messages
from opboost_ops.extras.serving.rows import frame_of, with_ids
from opboost_ops.privacy.declarations import declarations
from opboost_ops.tables.id_recipe import id_of_text, person_ids
from opboost_ops.tables.people import write_people
from tests.federation import Workspace

RULES = get_args(Normalisation)
THREE = IdColumn(columns=("birth", "postcode", "surname"), normalise=RULES, type="string")


def one(*rules: Normalisation) -> IdColumn:
    return IdColumn(column="id", normalise=rules, type="string")


def made(texts: Any, recipe: IdColumn) -> list[str | None]:
    return person_ids({"id": pl.Series(texts)}, recipe).to_list()


@pytest.mark.parametrize(
    ("rule", "raw", "becomes"),
    [
        ("strip", "\u00a0 van\u00a0\tder  Berg \u2003", "van der Berg"),
        ("strip", "a\u200bb", "a\u200bb"),  # A zero-width space is no white space in Unicode.
        ("casefold", "STRASSE Straße", "strasse strasse"),
        ("casefold", "\u01f0", "\u01f0"),  # Folded it falls into two: the result is composed.
        ("nfc", "Mu\u0308ller", "Müller"),
        ("nfc", "\ufb01", "\ufb01"),  # A compatibility form, which NFKC would make two letters.
        ("digits", "01067", "1067"),
        ("digits", "000", "0"),
        ("digits", "٠١٢", "12"),
        ("digits", "0x7", "0x7"),
        ("digits", "1990-02-01", "1990-02-01"),
        ("digits", "²", "²"),
    ],
)
def test_each_rule_does_what_is_documented(rule: Normalisation, raw: str, becomes: str) -> None:
    assert made([raw], one(rule)) == [becomes]


#: Characters that some rule changes, or that change beside another one.
CHANGING = (
    "aAß\u017f\u0130\u0131\u01f0\u0149\u0390Σς\u2160\ufb01\u00b5\u0345\u0301\u0308\u0323"
    " \u00a0\u2028\u2003\t01\u0660\u0663\uff11²|\\"
)


@settings(max_examples=40, deadline=None)
@given(
    st.text(st.sampled_from(CHANGING) | st.characters(exclude_categories=["Cs"]), max_size=8),
    st.sets(st.sampled_from(RULES)),
)
def test_applying_rules_again_changes_nothing(text: str, rules: set[Normalisation]) -> None:
    recipe = one(*rules, "nfc")
    (once,) = made([text], recipe)
    assert once is None or made([once], recipe) == [once]
    if once is not None and "strip" in rules:
        # What parties compare has one form.
        messages([once], "string")
    if once is not None and not rules & {"digits"}:
        assert made([unicodedata.normalize("NFD", text)], recipe) == [once]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text("a|\\", min_size=1, max_size=3), min_size=6, max_size=6))
def test_no_two_rows_of_values_give_one_id(values: list[str]) -> None:
    recipe = IdColumn(columns=("a", "b", "c"), type="string")
    rows = pl.DataFrame([values[:3], values[3:]], schema=["a", "b", "c"], orient="row")
    ids = person_ids(dict(zip("abc", rows.iter_columns(), strict=True)), recipe)
    assert (ids[0] == ids[1]) == (values[:3] == values[3:])
    assert id_of_text(ids[0], recipe) == ids[0]


def test_values_of_several_types_give_one_text() -> None:
    parts: dict[str, list[pl.Series]] = {
        "birth": [
            pl.Series([date(1990, 2, 1)]),
            pl.Series([datetime(1990, 2, 1)]),
            pl.Series(["1990-02-01"]),
        ],
        "postcode": [pl.Series([1067]), pl.Series(["01067"]), pl.Series([" 1067"])],
        "surname": [
            pl.Series(["MÜLLER"]),
            pl.Series(["müller"], dtype=pl.Categorical),
            pl.Series(["Mu\u0308ller "]),
        ],
    }
    for number in range(3):
        found = person_ids({name: some[number] for name, some in parts.items()}, THREE)
        assert found.to_list() == ["1990-02-01|1067|müller"]
    assert id_of_text("1990-02-01| 01067|Müller", THREE) == "1990-02-01|1067|müller"


def test_a_single_row_has_the_id_of_a_table_where_a_part_is_a_feature_too(
    written_once: Workspace,
) -> None:
    declared = written_once.declared
    recipe = IdColumn(columns=("age", "surname"), normalise=RULES, type="string")
    federation = declared.model_copy(update={"id": recipe})
    frame = frame_of([{"age": 42, "surname": "MÜLLER"}], federation, recipe.parts)
    assert with_ids(frame, federation).get_column("id").to_list() == ["42|müller"]


def test_a_part_without_a_value_makes_no_id() -> None:
    frame = {
        "birth": pl.Series(["1990-02-01"] * 3),
        "postcode": pl.Series([None, 1067, 1067]),
        "surname": pl.Series(["a", "\u00a0", "b"]),
    }
    assert person_ids(frame, THREE).to_list() == [None, None, "1990-02-01|1067|b"]


@pytest.mark.parametrize(
    "values",
    [pl.Series([1.5]), pl.Series([True]), pl.Series([datetime(1990, 2, 1, 12)]), pl.Series([[1]])],
)
def test_what_has_no_one_text_is_refused(values: pl.Series) -> None:
    with pytest.raises(ContractError, match=r"derived from id, whose type \w+"):
        person_ids({"id": values}, one("strip"))


@pytest.mark.parametrize(
    "declared",
    [
        {"columns": ["a"], "type": "string"},
        {"columns": ["a", "a"], "type": "string"},
        {"columns": ["a", "b"], "type": "integer"},
        {"column": "a", "normalise": ["strip"], "type": "integer"},
        {"column": "a", "normalise": ["upper"], "type": "string"},
        {"type": "string"},
    ],
)
def test_a_recipe_that_means_nothing_is_refused(declared: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        IdColumn.model_validate(declared)


def test_another_recipe_is_another_release_of_every_column(
    written_once: Workspace,
) -> None:
    """A person under another ID is somebody new, and charged again."""
    declared = written_once.declared
    policy, site = written_once.policy("shop"), written_once.site("shop")

    def contexts(**recipe: Any) -> set[str]:
        identity = IdColumn.model_validate({"column": "id", "type": "string", **recipe})
        other = declared.model_copy(update={"id": identity})
        return {one.digest for one in declarations(other, "shop", policy, site).values()}

    recipes: list[dict[str, Any]] = [
        {},
        {"normalise": ["strip"]},
        {"normalise": ["casefold"]},
        {"columns": ["a", "b"]},
        {"columns": ["b", "a"]},
    ]
    every = [contexts(**recipe) for recipe in recipes]
    assert len(set().union(*every)) == sum(map(len, every))
    assert contexts(normalise=["nfc", "strip"]) == contexts(normalise=["strip", "nfc", "nfc"])


def people(folder: Path, rows: pl.DataFrame, **aggregate: str) -> pl.DataFrame:
    table, target = folder / "rows.parquet", folder / "people.parquet"
    rows.sort("id", maintain_order=True).write_parquet(table)
    target.unlink(missing_ok=True)
    Tables(train=table, aggregate=aggregate)
    known = rows.get_column("id").drop_nulls().n_unique()
    assert write_people(table, "id", aggregate, "bank", target) == known
    return pl.read_parquet(target)


def test_rows_of_a_person_become_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pl.DataFrame(
        {
            "id": ["b", "a", "b", "b", "c"],
            "amount": [1e16, 2.5, 1.0, -1e16, None],
            "rate": [math.nan, 3.0, 5.0, 7.0, math.nan],
            "day": [date(2020, 1, 3), None, date(2020, 1, 5), date(2020, 1, 4), None],
            "kind": pl.Series(["x", "y", "z", "y", None], dtype=pl.Categorical),
        }
    )
    monkeypatch.setattr("opboost_ops.tables.people.rows_of_block", lambda _: 2)
    wanted = {
        "id": ["a", "b", "c"],
        "amount": [2.5, 1.0, None],  # To the bit, in whatever order; nothing sums to nothing.
        "mean": [3.0, 6.0, None],
        "day": [None, date(2020, 1, 5), None],
        "first": [None, date(2020, 1, 3), None],
        "kind": ["y", "z", None],
        "n": [1, 3, 1],
    }
    declared = {
        "amount": "sum",
        "mean": "mean(rate)",
        "day": "max",
        "first": "min(day)",
        "kind": "max",
        "n": "n",
    }
    for order in (rows, rows.reverse(), rows[[2, 0, 4, 3, 1]]):
        assert people(tmp_path, order, **declared).to_dict(as_series=False) == wanted


def test_a_sum_that_is_no_number_is_infinite(tmp_path: Path) -> None:
    rows = pl.DataFrame({"id": ["a", "a", "b", "b"], "x": [1.7e308, 1.7e308, math.inf, -math.inf]})
    assert people(tmp_path, rows, x="sum").get_column("x").to_list() == [math.inf, math.inf]


@pytest.mark.parametrize(
    ("aggregate", "match"),
    [
        ({"x": "sum(y)"}, "Entry 1 .* names a column that is not in the table"),
        ({"kind": "sum"}, "Entry 1 .* requests the sum of a column of type String"),
    ],
)
def test_an_aggregate_that_cannot_be_is_refused(
    tmp_path: Path, aggregate: dict[str, str], match: str
) -> None:
    with pytest.raises(ContractError, match=match):
        people(tmp_path, pl.DataFrame({"id": ["a"], "x": [1.0], "kind": ["u"]}), **aggregate)
    with pytest.raises(ValidationError):
        Tables(train=tmp_path, aggregate={"x": "median"})


def test_rows_without_an_id_stay_one_for_the_check_to_refuse(tmp_path: Path) -> None:
    rows = pl.DataFrame({"id": ["a", None, None, None, "b"], "x": [1.0, 2.0, 3.0, 4.0, 5.0]})
    made = people(tmp_path, rows, x="sum")
    assert made.to_dict(as_series=False) == {"id": [None, "a", "b"], "x": [9.0, 1.0, 5.0]}

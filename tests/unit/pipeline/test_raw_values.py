"""Raw cells as declarations take them."""

import uuid
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opboost_ops.config.columns import columns_of, map_digest
from opboost_ops.config.feature import Feature, canonical
from opboost_ops.config.federation import IdColumn
from opboost_ops.domain import Domain
from opboost_ops.errors import ContractError
from opboost_ops.pipeline.inputs.raw_table import numbers, require_types
from opboost_ops.tables.raw_values import declared_series
from tests.unit.config.test_columns import federation


def feature(**declared: Any) -> Feature:
    return Feature.model_validate({"uuid": uuid.UUID(int=1), **declared})


def seen(values: Any, **declared: Any) -> list[Any]:
    series = values if isinstance(values, pl.Series) else pl.Series("x", values)
    found = declared_series(series, feature(**declared))
    assert declared_series(found, feature(**declared)).to_list() == found.to_list()
    return found.to_list()


NOON = datetime(2020, 1, 31, 12)


def test_dates_and_times_are_numbers_of_the_declared_unit() -> None:
    days = (date(2020, 1, 31) - date(1970, 1, 1)).days
    assert seen([date(2020, 1, 31), None], unit="days") == [days, None]
    assert seen([NOON], unit="days") == [days + 0.5]
    assert seen([NOON], unit="hours") == [days * 24 + 12]
    assert seen([date(1960, 1, 1)], unit="days") == [-3653]
    assert seen([timedelta(minutes=90)], unit="hours") == [1.5]
    assert seen([time(6, 30)], unit="minutes") == [390]
    for text in ("2020-01-31T12:00:00", " 2020-01-31 12:00:00.000 ", "2020-01-31T12:00:00Z"):
        assert seen([text], unit="days") == [days + 0.5]
    assert seen(["2020-01-31"], unit="days") == [days]
    # The same instant is the same number, in whatever zone and precision it is written.
    zoned = NOON.replace(tzinfo=UTC).astimezone(timezone(timedelta(hours=5)))
    assert seen([zoned], unit="days") == [days + 0.5]
    for precision in ("ms", "us", "ns"):
        assert seen(pl.Series([NOON], dtype=pl.Datetime(precision)), unit="days") == [days + 0.5]


def test_a_text_that_is_no_date_is_told_without_it() -> None:
    with pytest.raises(ContractError) as caught:
        seen(["2020-01-31", "31.1.2020 canary"], unit="days")
    assert "canary" not in str(caught.value) and "2020-01-31T12:00:00" in str(caught.value)


def test_a_date_without_a_unit_says_what_to_declare() -> None:
    frame = pl.DataFrame({"x": [date(2020, 1, 31)]})
    with pytest.raises(ContractError, match="unit: days"):
        require_types(frame, "bank", {"x": feature(bounds=[0, 1])})
    require_types(frame, "bank", {"x": feature(bounds=[0, 1], unit="days")})


@pytest.mark.parametrize("number", [20240301, 1709251200, -1e9])
def test_numbers_that_count_no_days_are_refused(number: float) -> None:
    with pytest.raises(ContractError, match="beyond the year 9999"):
        seen([1.0, number], unit="days")
    assert seen([19783, None], unit="days") == [19783, None]


def test_text_of_moments_has_one_meaning() -> None:
    noons = ["2020-01-31T12:00", "2020-01-31 12:00:00Z", "2020-01-31T13:00:00+01:00"]
    assert len(set(seen(noons, unit="hours"))) == 1


def test_bounds_and_fill_may_be_dates() -> None:
    declared = feature(
        unit="days",
        bounds=[date(1970, 1, 11), datetime(1970, 1, 21, 12)],
        missing={"fill": date(1970, 1, 2)},
    )
    assert declared.bounds == (10.0, 20.5)
    assert numbers(pl.Series("x", [date(1970, 1, 13), None]), declared).tolist() == [12, 1]


def test_booleans_have_bounds_and_domain_by_themselves() -> None:
    declared = feature(type="boolean")
    assert (declared.type, declared.bounds) == ("numeric", (0.0, 1.0))
    assert declared == feature(type="numeric", bounds=[0, 1], domain={"lower": 0, "upper": 1})
    assert numbers(pl.Series("x", [True, False]), declared).tolist() == [1, 0]


def test_decimals_are_numbers() -> None:
    values = pl.Series("x", [Decimal("1.25"), None], dtype=pl.Decimal(10, 2))
    assert seen(values, bounds=[0, 2]) == [1.25, None]


def test_categories_are_mapped_and_rare_ones_are_the_rest() -> None:
    declared = {
        "type": "nominal",
        "categories": ["rent", "own home", "other"],
        "mapping": {"Miete": "rent", "3": "own home"},
        "rest": "other",
    }
    raw = ["rent", " rent ", "Miete", "Miete ", "own home", "a boat", "", None]
    mapped = ["rent"] * 4 + ["own home", "other", None, None]
    assert seen(raw, **declared) == mapped
    assert seen(pl.Series(raw, dtype=pl.Categorical), **declared) == mapped
    assert seen([3, 4, None], **declared) == ["own home", "other", None]
    assert seen([3.0, float("nan")], **declared) == ["own home", None]
    del declared["rest"]
    assert seen(["a boat"], **declared) == ["a boat"]  # The check of the raw table refuses it.


@pytest.mark.parametrize(
    "values",
    [["3", "1"], ["3.0", " 1 "], [3, 1], [3.0, 1.0], [Decimal("3.00"), Decimal("1.00")]],
)
def test_a_category_has_one_form_whatever_the_type_of_its_column(values: list[Any]) -> None:
    assert seen(values, type="nominal") == ["3", "1"]
    assert seen(values, type="nominal", categories=["3.0", "1"]) == ["3.0", "1"]
    renamed = {"categories": ["three", "other"], "mapping": {"3": "three"}, "rest": "other"}
    assert seen(values, type="nominal", **renamed) == ["three", "other"]
    assert seen(["01", "1", "1.10"], type="nominal") == ["01", "1", "1.10"]
    truths = seen(["TRUE", "False"], type="nominal")
    assert seen([True, False], type="nominal") == truths == ["true", "false"]
    for unit in ("ms", "us", "ns"):
        days = pl.Series("x", [datetime(2020, 1, 31), NOON], pl.Datetime(unit))  # type: ignore[arg-type]
        assert seen(days, type="nominal") == ["2020-01-31", "2020-01-31 12:00:00"]
    assert seen([Decimal("1.50")], type="nominal") == seen([1.5], type="nominal") == ["1.5"]
    codes = ["12345678901234567890", "12345678901234567891"]
    assert seen([Decimal(code) for code in codes], type="nominal") == codes
    with pytest.raises(ValueError, match="cannot tell"):
        feature(type="nominal", categories=["3", "3.0"])


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.text(max_size=4).filter(canonical), max_size=8),
    st.lists(st.text(max_size=4).filter(canonical), min_size=2, max_size=5, unique_by=canonical),
)
def test_with_a_rest_every_category_is_a_declared_one(raw: list[str], known: list[str]) -> None:
    declared = feature(type="nominal", categories=known, rest=known[0])
    values = pl.Series("x", raw, dtype=pl.String)
    found = declared_series(values, declared)
    assert set(found.to_list()) <= set(known)
    assert not any(r in known and r != f for r, f in zip(raw, found.to_list(), strict=True))


def test_every_new_declaration_is_in_the_digest() -> None:
    identity, domain = IdColumn(column="id", type="string"), Domain(1, 10)
    before: dict[str, Any] = {"type": "nominal", "categories": ["a", "b"]}
    number: dict[str, Any] = {"bounds": [0, 1]}
    for base, change in (
        (before, {"rest": "b"}),
        (before, {"mapping": {"c": "a"}}),
        (number, {"unit": "days"}),
    ):
        old, new = feature(**base), feature(**{**base, **change})
        assert map_digest(old, domain, identity) != map_digest(new, domain, identity)
    other = feature(**before, mapping={"c": "b"})
    assert map_digest(other, domain, identity) != map_digest(
        feature(**before, mapping={"c": "a"}), domain, identity
    )


def test_names_of_columns_hold_what_models_can_hold() -> None:
    declared = {
        "type": "nominal",
        "categories": ["rent, free", 'a "b"', "é:[x]", "plain%20", "<50"],
        "mechanism": {"name": "unary", "epsilon": 1.0},
    }
    names = [column.name for column in columns_of(federation(x=declared), "bank")]
    assert names == [
        "x=rent%2C%20free",
        "x=a%20%22b%22",
        "x=é%3A%5Bx%5D",
        "x=plain%20",
        "x=<50",
    ]

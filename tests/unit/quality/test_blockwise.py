"""A table that is checked block by block is told the same as in one piece."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from opboost_ops.config.feature import Feature, Fill
from opboost_ops.domain import Domain
from opboost_ops.errors import ContractError
from opboost_ops.quality import blockwise, suites
from opboost_ops.quality.checks import run_suite
from opboost_ops.quality.drift import Profile, compare, profile
from opboost_ops.quality.suites import Suite
from tests.unit.quality.suites_under_test import DOMAIN, ROWS, ranks, raw, raw_suite, table

#: Of several blocks, the last one short.
FEW = 7


def added(suite: Suite, *expectations: tuple[str, dict[str, Any]]) -> Suite:
    """A suite with what a party may add."""
    more = tuple({"type": f"expect_{kind}", "kwargs": kwargs} for kind, kwargs in expectations)
    return replace(suite, expectations=(*suite.expectations, *more), own=len(more))


def spoilt() -> pa.Table:
    """Faults of every kind, in different blocks; one block of nothing but gaps."""
    data = raw()
    data["person"][1], data["person"][18], data["person"][3] = "p17", "p17", ""
    data["amount"][:9] = [None, float("nan"), *[None] * 7]
    data["amount"][12] = 1e6
    data["income"][7:14] = [None] * 7
    data["grade"][2], data["grade"][19] = None, 9
    data["town"] = [None] * 15 + ["north"] * 5
    # Whole numbers up to the last block: none of them is then a class.
    data["paid"] = [float(i % 2) for i in range(ROWS - 1)] + [0.5]
    return table(data)


RAW = added(
    raw_suite(classes=(0, 1)),
    ("column_median_to_be_between", {"column": "income", "min_value": 0, "max_value": 11}),
    ("column_mean_to_be_between", {"column": "income", "min_value": 12}),
    ("column_max_to_be_between", {"column": "amount", "max_value": 1e6}),
    ("column_min_to_be_between", {"column": "amount", "min_value": 10, "strict_min": True}),
    ("column_min_to_be_between", {"column": "person", "min_value": 1}),
    ("column_unique_value_count_to_be_between", {"column": "grade", "max_value": 3}),
    ("column_values_to_be_unique", {"column": "person", "mostly": 0.85}),
    ("column_values_to_be_unique", {"column": "person", "mostly": 0.86}),
    ("column_values_to_be_unique", {"column": "grade"}),
    ("column_values_to_be_between", {"column": "amount", "max_value": 50, "mostly": 0.9}),
    ("column_values_to_be_between", {"column": "amount", "max_value": 50, "mostly": 0.92}),
    ("column_values_to_be_between", {"column": "town", "max_value": 50}),
    ("column_values_to_be_of_type", {"column": "grade", "type_": "float64"}),
    ("column_values_to_be_in_type_list", {"column": "town", "type_list": ["str"]}),
    ("column_values_to_match_regex", {"column": "town", "regex": "^nor", "mostly": 0.5}),
    ("column_value_lengths_to_equal", {"column": "grade", "value": 3}),
    ("column_value_lengths_to_equal", {"column": "town", "value": 5}),
    ("column_pair_values_a_to_be_greater_than_b", {"column_A": "income", "column_B": "amount"}),
    ("compound_columns_to_be_unique", {"column_list": ["grade", "paid"]}),
    ("table_row_count_to_be_between", {"min_value": ROWS + 1}),
)


def gap() -> pa.Table:
    """A rank that nobody has, and one below 1."""
    data = ranks()
    data["a"] = [1 + i % 5 if i % 5 != 2 else 2 for i in range(ROWS)]
    data["b"][13] = 0
    kinds = {"a": pa.uint8(), "b": pa.int32()}
    return pa.table({name: pa.array(values, kinds[name]) for name, values in data.items()})


RELEASE = suites.release(dict.fromkeys("ab", DOMAIN), ROWS - 1)


@pytest.mark.parametrize(
    ("suite", "whole"), [(RAW, spoilt()), (RELEASE, gap())], ids=["raw", "release"]
)
def test_the_report_is_that_of_the_whole(
    suite: Suite, whole: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run_suite(suite, whole)
    asked: list[tuple[str, ...]] = []

    def read(columns: Sequence[str]) -> Iterator[pa.Table]:
        asked.append(tuple(columns))
        chosen = whole.select(list(columns)) if columns else whole
        for begin in range(0, ROWS, FEW):
            yield chosen.slice(begin, FEW)

    found = list(run_suite(suite, read).results)
    # What could not be looked at comes first where Great Expectations has all at once.
    looked_at = [result for result in expected.results if result.evaluated]
    assert [result for result in found if result.evaluated] == looked_at
    assert sorted(map(repr, found)) == sorted(map(repr, expected.results))
    outcomes = [(r.success, r.evaluated) for r in expected.results]
    assert len(set(outcomes)) >= 2
    assert asked.count(()) == 1
    # A table that is there is cut in the same way when it is large.
    monkeypatch.setattr(blockwise, "FEWEST", FEW)
    monkeypatch.setattr(blockwise, "MOST", FEW)
    if suite is RELEASE:
        assert run_suite(suite, whole).results == expected.results


def test_no_column_of_the_table_is_read_whole_by_the_suites_that_are_built_in() -> None:
    """Of several blocks at once only those of which two rows have the same ID."""
    held = 0

    def read(columns: Sequence[str]) -> Iterator[pa.Table]:
        nonlocal held
        held += bool(columns)
        chosen = spoilt().select(list(columns)) if columns else spoilt()
        for begin in range(0, ROWS, FEW):
            yield chosen.slice(begin, FEW)

    run_suite(raw_suite(classes=(0, 1)), read)
    # IDs a second time.
    assert held == 1


def test_a_table_that_cannot_be_read_is_told_as_such() -> None:
    def read(_: Sequence[str]) -> Iterator[pa.Table]:
        yield spoilt()
        raise ContractError("The table is truncated.")

    with pytest.raises(ContractError, match="truncated"):
        run_suite(RAW, read)


def test_drift_is_that_of_the_whole() -> None:
    features = {
        "wide": Feature(uuid="00000000-0000-4000-8000-000000000001", bounds=(0, 900)),
        "own": Feature(uuid="00000000-0000-4000-8000-000000000002"),
        "grade": Feature(uuid="00000000-0000-4000-8000-000000000003", type="ordinal",
                         categories=("a", "b"), missing=Fill(fill="a")),
        "town": Feature(uuid="00000000-0000-4000-8000-000000000004", type="nominal"),
    }  # fmt: skip
    then = pl.DataFrame(
        {
            "wide": [float(i * i % 997) for i in range(1000)],
            "own": [None if i % 9 == 0 else i * 7 % 113 for i in range(1000)],
            "grade": ["ab c"[i % 4] for i in range(1000)],
            "town": [None] * 400 + [f"t{i % 5}" for i in range(600)],
        }
    )

    def read(columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        return then.select(columns).iter_slices(130)

    def few(columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        return then.head(300).select(columns).iter_slices(7)

    for domain in (Domain(1, 10), Domain(-3, 700)):
        whole = profile(then, features, domain)
        assert profile(read, features, domain) == whole
        report = compare(whole, then.head(300), features, 0.25)
        blocks = compare(whole, few, features, 0.25)
        assert report.results == blocks.results
    # The quantiles are numpy's, as they were when the table was whole.
    encoded = features["wide"].domain_map(domain).encode(then["wide"].to_numpy())
    steps = np.unique(np.quantile(encoded, np.arange(1, 20) / 20, method="lower")) + 1
    mapping = features["wide"].domain_map(domain)
    expected = np.unique([mapping.boundary(int(s)) for s in steps if s <= domain.upper])
    assert Profile.model_validate(whole).features["wide"].edges == tuple(expected.tolist())

"""A profile in blocks is that of the whole, and agrees with Great Expectations on the rows."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from opboost_ops.config.feature import Feature
from opboost_ops.config.federation import IdColumn, Label, Party
from opboost_ops.config.policy import Checks
from opboost_ops.domain import Domain
from opboost_ops.errors import ContractError
from opboost_ops.quality import suites
from opboost_ops.quality.checks import run_suite
from opboost_ops.quality.suites import Suite
from opboost_ops.tables.spill.arrays import Scratch
from opboost_ops.tables.spill.blocks import Blocks
from tests.unit.quality.test_suites import SUITES, put, raw

ROWS = 12
FEW = settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    phases=[Phase.generate],
)


def cells(values: st.SearchStrategy[Any], *kinds: pa.DataType) -> st.SearchStrategy[pa.Array]:
    lists = st.lists(st.none() | values, min_size=ROWS, max_size=ROWS)
    return st.one_of(*(lists.map(lambda v, k=kind: pa.array(v).cast(k)) for kind in kinds))


TEXT = cells(
    st.sampled_from(["", "0", "1", "2", "a", "ä"]), pa.string(), pa.large_string(), pa.string_view()
)
INTEGER = st.one_of(
    cells(st.integers(-2, 6), pa.int8(), pa.int64()),
    cells(st.integers(2**52, 2**52 + 9), pa.int64(), pa.uint64()),
)
FLOAT = cells(
    st.sampled_from([0.0, -0.0, 1.0, 2.0, 0.5, float("nan"), float("inf"), -1e30]),
    pa.float64(),
    pa.float32(),
)
ODD = st.one_of(
    cells(st.booleans(), pa.bool_()),
    TEXT.map(lambda values: values.dictionary_encode()),
    st.just(pa.nulls(ROWS)),
)
NUMBER, ANY = st.one_of(INTEGER, FLOAT), st.one_of(INTEGER, FLOAT, TEXT, ODD)

PARTY = Party.model_construct(
    role="label_holder",
    features={
        "amount": Feature(uuid=UUID(int=1), bounds=(0, 2)),
        "income": Feature(uuid=UUID(int=2), missing="keep"),
        "grade": Feature(uuid=UUID(int=3), type="ordinal", categories=("1", "2", "a")),
    },
    label=Label(column="paid", task="binary", classes=(0, 1)),
)
RAW = suites.raw_table(
    PARTY,
    IdColumn(column="person", type="string"),
    Checks(max_clipped_share=0.25, max_missing_share=0.5),
)
DOMAIN = {"a": Domain(1, 4), "b": Domain(-2, 3)}


def in_blocks(whole: pa.Table, rows: int) -> Blocks:
    def read(columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        part = whole.select(list(columns)) if columns else whole
        for begin in range(0, len(whole), rows):
            yield pl.DataFrame(part.slice(begin, rows))

    return read


@FEW
@given(st.fixed_dictionaries(dict.fromkeys(["person", "amount", "income", "grade", "paid"], ANY)))
def test_blocks_give_what_the_whole_gives(columns: dict[str, pa.Array]) -> None:
    whole = pa.table(columns)
    expected = run_suite(RAW, whole).results
    for rows in (1, 5, ROWS - 1):
        assert run_suite(RAW, in_blocks(whole, rows)).results == expected


@FEW
@given(
    st.fixed_dictionaries({"person": TEXT, "grade": TEXT, "amount": NUMBER, "income": NUMBER}),
    st.fixed_dictionaries({"a": INTEGER, "b": INTEGER}),
)
def test_a_profile_agrees_with_great_expectations_on_the_rows(
    columns: dict[str, pa.Array], integers: dict[str, pa.Array]
) -> None:
    ours = suites.raw_table(
        PARTY.model_copy(update={"label": None}), IdColumn(column="person", type="string"), Checks()
    )
    for suite, table in (
        (ours, pa.table(columns)),
        (suites.preprocessed_table(DOMAIN, ROWS + 1), pa.table(integers)),
        (suites.release(DOMAIN, ROWS), pa.table(integers)),
    ):
        comparable = tuple(e for e in suite.expectations if "indicator" not in e)
        # pandas turns integers with a gap into floats, which is a matter of its own.
        comparable = tuple(e for e in comparable if "type_list" not in e["kwargs"])
        measured, on_rows = (
            [
                (r.expectation, r.column, r.success, r.unexpected)
                for r in run_suite(s, table).results
            ]
            for s in (replace(suite, expectations=comparable), Suite("rows", (), comparable))
        )
        assert measured == on_rows


@pytest.mark.parametrize("boundary", SUITES)
def test_short_tables(boundary: str) -> None:
    suite, good = SUITES[boundary]
    for rows in (0, 1):
        run_suite(suite, good().head(rows).to_arrow())


def test_repeated_ids_are_found_among_spilled_hashes(tmp_path: Any) -> None:
    repeated = put("id", "p17", "p17")(raw()).to_arrow()
    report = run_suite(SUITES["raw_table"][0], in_blocks(repeated, 4), Scratch(tmp_path, 3))
    (result,) = [r for r in report.results if not r.success]
    assert (result.expectation, result.unexpected) == ("expect_column_values_to_be_unique", 3)


def test_own_expectations_see_all_rows_of_the_columns_that_they_name() -> None:
    read: list[tuple[str, ...]] = []
    own = [
        ("column_median_to_be_between", {"column": "age", "min_value": 19, "max_value": 20}),
        ("column_pair_values_a_to_be_greater_than_b", {"column_A": "age", "column_B": "gap"}),
        ("table_row_count_to_be_between", {"min_value": 41}),
    ]
    suite = Suite("x", (), tuple({"type": f"expect_{k}", "kwargs": v} for k, v in own))

    def blocks(columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        read.append(tuple(columns))
        return in_blocks(raw().to_arrow(), 7)(columns)

    assert [r.success for r in run_suite(suite, blocks).results] == [True, False, False]
    assert set(read) == {(), ("age",), ("age", "gap"), ("id",)}


def test_a_table_that_cannot_be_read_says_so() -> None:
    def read(_: Sequence[str]) -> Iterator[pl.DataFrame]:
        yield raw()
        raise ContractError("The table is truncated.")

    with pytest.raises(ContractError, match="truncated"):
        run_suite(SUITES["raw_table"][0], read)

"""What is judged by counts is what Great Expectations says, on whatever table."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from opboost_ops.config.feature import Feature
from opboost_ops.config.federation import IdColumn, Label, Party
from opboost_ops.config.policy import Checks
from opboost_ops.domain import Domain
from opboost_ops.errors import ContractError
from opboost_ops.quality import checks, suites
from opboost_ops.quality.checks import run_suite
from opboost_ops.quality.gathering import Blocks
from opboost_ops.quality.report import Result
from opboost_ops.quality.suites import Suite
from tests.unit.quality.suites_under_test import GOOD, table

MOST = 12
TINY = settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    phases=[Phase.generate],
)


def asked(suite: Suite) -> Suite:
    """The same, all of it asked of Great Expectations as if the party had added it."""
    return replace(suite, own=len(suite.expectations))


def outcome(suite: Suite, whole: pa.Table | Blocks) -> tuple[Result, ...] | str:
    """The results, or that there can be none."""
    try:
        found = run_suite(suite, whole).results
        # Great Expectations has an order of its own for what could not be looked at.
        first = sorted((r for r in found if not r.evaluated), key=repr)
        return (*first, *(r for r in found if r.evaluated))
    except ContractError as error:
        return str(error)


def told(suite: Suite, whole: pa.Table) -> None:
    assert outcome(suite, whole) == outcome(asked(suite), whole)


def integers(kind: pa.DataType, least: int, most: int) -> st.SearchStrategy[pa.Array]:
    values = st.none() | st.integers(least, most)
    return st.lists(values, min_size=MOST, max_size=MOST).map(lambda v: pa.array(v, kind))


def floats(kind: pa.DataType, width: int) -> st.SearchStrategy[pa.Array]:
    few = st.sampled_from([0.0, -0.0, 1.0, 2.0, 0.5, float("nan"), float("inf"), 1e300, 0.1])
    values = st.none() | (few if width == 64 else few.filter(lambda x: x != 1e300))
    values |= st.floats(width=width)  # type: ignore[arg-type]
    return st.lists(values, min_size=MOST, max_size=MOST).map(lambda v: pa.array(v, kind))


def texts(kind: pa.DataType) -> st.SearchStrategy[pa.Array]:
    values = st.none() | st.sampled_from(["", "0", "1", "2", "a", "ä", "yes"])
    return st.lists(values, min_size=MOST, max_size=MOST).map(lambda v: pa.array(v).cast(kind))


TEXT = st.one_of(texts(pa.string()), texts(pa.large_string()), texts(pa.string_view()))
NUMBER = st.one_of(
    integers(pa.int8(), -2, 6),
    integers(pa.uint8(), 1, 4),
    integers(pa.int64(), 0, 6),
    integers(pa.int64(), 2**60, 2**60 + 40),
    integers(pa.uint64(), 2**63, 2**63 + 2),
    floats(pa.float64(), 64),
    floats(pa.float32(), 32),
)
ODD = st.one_of(
    st.lists(st.none() | st.booleans(), min_size=MOST, max_size=MOST).map(pa.array),
    texts(pa.string()).map(lambda values: values.dictionary_encode()),
    st.just(pa.nulls(MOST)),
    st.lists(st.none() | st.just(b"x"), min_size=MOST, max_size=MOST).map(pa.array),
)
ANY = st.one_of(NUMBER, NUMBER, TEXT, ODD)


def feature(number: int, **declared: Any) -> Feature:
    return Feature(uuid=UUID(int=number), **declared)


PARTY = Party.model_construct(
    role="label_holder",
    features={
        "amount": feature(1, bounds=(0, 2)),
        "income": feature(2, missing="keep"),
        "grade": feature(3, type="ordinal", categories=("1", "2", "a"), missing="keep"),
    },
    label=Label(column="paid", task="binary", classes=(0, 1)),
)
RAW = suites.raw_table(
    PARTY,
    IdColumn(column="person", type="string"),
    Checks(max_clipped_share=0.25, max_missing_share=0.5),
)
NUMBERS = suites.raw_table(
    PARTY.model_copy(update={"label": Label(column="paid", task="regression")}),
    IdColumn(column="person", type="integer"),
    Checks(max_missing_share=0),
)
DOMAIN = {"a": Domain(1, 4), "b": Domain(-2, 3)}
LABEL = Label(column="paid", task="multiclass")


def columns(*names: str) -> st.SearchStrategy[pa.Table]:
    return st.fixed_dictionaries(dict.fromkeys(names, ANY)).map(pa.table)


@TINY
@given(columns("person", "amount", "income", "grade", "paid"))
def test_raw_tables(whole: pa.Table) -> None:
    told(RAW, whole)
    told(NUMBERS, whole)


@TINY
@given(columns("a", "b", "prediction", "threshold", "score", "class", "label"))
def test_tables_between_the_stages(whole: pa.Table) -> None:
    both = whole.select(["a", "b"])
    told(suites.preprocessed_table(DOMAIN, MOST), both)
    told(suites.release(DOMAIN, MOST + 1), both)
    told(suites.acceptance(DOMAIN, MOST, dense=False), both)
    told(suites.training_frame(["a", "b"], LABEL, 3, MOST, {"b": 3}), whole)
    told(suites.model("binary"), whole)
    told(suites.scores("a", "binary", [0, 1], MOST), whole)
    told(suites.scores("a", "multiclass", ["a", "yes"], MOST), whole)


@TINY
@given(columns("person", "amount", "income", "grade", "paid"), st.integers(1, MOST - 1))
def test_blocks(whole: pa.Table, rows: int) -> None:
    def read(chosen: Sequence[str]) -> Iterator[pa.Table]:
        part = whole.select(list(chosen)) if chosen else whole
        for begin in range(0, MOST, rows):
            yield part.slice(begin, rows)

    for suite in (RAW, NUMBERS):
        assert sorted(map(repr, outcome(suite, read))) == sorted(
            map(repr, outcome(asked(suite), read))
        )


@pytest.mark.parametrize("boundary", GOOD)
@pytest.mark.parametrize("rows", [None, 0, 1])
def test_good_and_short_tables(boundary: str, rows: int | None) -> None:
    make, data = GOOD[boundary]
    told(make(), table(data()).slice(0, rows))


def test_great_expectations_is_not_asked_without_need(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(checks, "_asked", fail)
    for make, data in GOOD.values():
        assert run_suite(make(), table(data())).passed


def test_a_column_that_is_not_there() -> None:
    make, data = GOOD["raw_table"]
    told(make(), table(data()).drop_columns(["town", "paid"]))

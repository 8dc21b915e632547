"""A profile in blocks is that of the whole, and agrees with pandas."""

import math
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from opboost_ops.config.feature import Feature
from opboost_ops.config.federation import IdColumn, Label, Party
from opboost_ops.config.policy import Checks
from opboost_ops.errors import ContractError
from opboost_ops.quality import suites
from opboost_ops.quality.checks import run_suite
from opboost_ops.quality.profile import profile
from opboost_ops.quality.suites import Declared
from opboost_ops.tables.spill.arrays import Scratch
from opboost_ops.tables.spill.tables import Blocks, blocks_of
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
    expected = profile(RAW.columns, blocks_of(whole))
    for rows in (1, 5, ROWS - 1):
        found = profile(RAW.columns, in_blocks(whole, rows))
        # The mean hangs on the order of the additions.
        assert [without_mean(row) for row in found] == [without_mean(row) for row in expected]


def without_mean(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "mean"}


@FEW
@given(INTEGER, FLOAT, TEXT)
def test_a_profile_agrees_with_pandas(integer: pa.Array, number: pa.Array, text: pa.Array) -> None:
    columns = (
        Declared("id", "id", unique=True),
        Declared("n", "rank", "integer", bounds=(1, 4)),
        Declared("x", "own", "number", bounds=(0, 2)),
    )
    whole = pa.table({"id": text, "n": integer, "x": number})
    found = {row["column"]: row for row in profile(columns, in_blocks(whole, 5))}
    texts = whole.column("id").to_pandas()
    assert found["id"]["repeated"] == int(texts.dropna().duplicated(keep=False).sum())
    assert found["id"]["empty"] == int((texts == "").sum())
    for name, low, high in (("n", 1, 4), ("x", 0, 2)):
        values = pd.Series(whole.column(name).to_pylist(), dtype="object")
        values = values[values.map(lambda v: v is not None and v == v)]
        assert found[name]["missing"] == ROWS - len(values)
        assert found[name]["distinct"] == len(set(values))
        assert found[name]["outside"] == sum(not low <= value <= high for value in values)
        infinite = sum(v in (math.inf, -math.inf) for v in values)
        assert found[name]["not_finite"] == infinite
        if len(values) and not infinite:
            assert found[name]["minimum"] == float(min(values))
            assert found[name]["mean"] == pytest.approx(sum(map(float, values)) / len(values))


@pytest.mark.parametrize("boundary", SUITES)
def test_short_tables(boundary: str) -> None:
    suite, good = SUITES[boundary]
    for rows in (0, 1):
        run_suite(suite, good().head(rows).to_arrow())


def test_repeated_ids_are_found_among_spilled_hashes(tmp_path: Any) -> None:
    repeated = put("id", "p17", "p17")(raw()).to_arrow()
    report = run_suite(SUITES["raw_table"][0], in_blocks(repeated, 4), Scratch(tmp_path, 3))
    (finding,) = report.findings
    assert (finding.measure, finding.value) == ("repeated", 3)


def test_a_table_that_cannot_be_read_says_so() -> None:
    def read(_: Sequence[str]) -> Iterator[pl.DataFrame]:
        yield raw()
        raise ContractError("The table is truncated.")

    with pytest.raises(ContractError, match="truncated"):
        run_suite(SUITES["raw_table"][0], read)

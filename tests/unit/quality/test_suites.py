"""Every expectation of every template: a table that keeps it, and a fault that it finds."""

import json
import math
from collections.abc import Callable, Mapping
from uuid import UUID

import polars as pl
import pytest

from opboost_ops.config.feature import Feature, Fill
from opboost_ops.config.federation import IdColumn, Label, Party
from opboost_ops.config.policy import Checks
from opboost_ops.config.resources import schemas_folder
from opboost_ops.domain import Domain
from opboost_ops.quality import suites
from opboost_ops.quality.checks import run_suite
from opboost_ops.quality.report import Report
from opboost_ops.quality.suites import Suite

#: Numbers and texts that every planted fault consists of, and no report may show.
CANARY = 48151623.421875
CANARY_TEXT = "zq7canary48151623"

ROWS = 40
DOMAIN = Domain(1, 10)
IDS = IdColumn(column="id", type="string")
LABEL = Label(column="y", task="binary", classes=(0, 1))


def uuid(i: int) -> UUID:
    return UUID(int=i)


PARTY = Party(
    role="label_holder",
    signing_key="A" * 43 + "=",
    label=LABEL,
    features={
        "age": Feature(uuid=uuid(1), bounds=(0, 100)),
        "gap": Feature(uuid=uuid(2), bounds=(0, 100), missing=Fill(fill=1)),
        "size": Feature(uuid=uuid(3), type="ordinal", categories=("1", "2", "3")),
        "town": Feature(uuid=uuid(4), type="nominal", missing="keep"),
    },
)
NUMBERS = PARTY.model_copy(update={"label": Label(column="y", task="regression")})
UNDECLARED = PARTY.model_copy(update={"label": Label(column="y", task="binary")})


def raw() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "id": [f"p{i}" for i in range(ROWS)],
            "age": [float(i) for i in range(ROWS)],
            "gap": [None if i < 4 else float(i) for i in range(ROWS)],
            "size": ["1", "2", "3", "2"] * (ROWS // 4),
            "town": [None, "east", *["north", "south"] * (ROWS // 2 - 1)],
            "y": [0, 1] * (ROWS // 2),
        }
    )


def ranks() -> pl.DataFrame:
    values = [i % 5 + 1 for i in range(ROWS)]
    return pl.DataFrame({"a": values, "b": values[::-1]}, schema={"a": pl.UInt8, "b": pl.UInt8})


def codes() -> pl.DataFrame:
    """Codes of a whole domain, of which not all are there."""
    return ranks().with_columns(a=pl.lit(3), b=pl.col("b") + 1)


def frame() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "own.x": [float(i) for i in range(ROWS)],
            "bank.a": [float(i % 5 + 1) for i in range(ROWS)],
            "label": [float(i % 2) for i in range(ROWS)],
        }
    )


def predictions() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "prediction": [i / ROWS for i in range(ROWS)],
            "threshold": [0.05, 0.95] + [None] * (ROWS - 2),
        }
    )


def scored() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "id": [f"p{i}" for i in range(ROWS)],
            "score": [i / ROWS for i in range(ROWS)],
            "class": ["no", "yes"] * (ROWS // 2),
            "probability_no": [1 - i / ROWS for i in range(ROWS)],
            "probability_yes": [i / ROWS for i in range(ROWS)],
        }
    )


PROBABILITIES = ["probability_no", "probability_yes"]
NAMES = ["own.x", "bank.a"]
BANK = {"bank.a": 10}
CHECKS = Checks(max_clipped_share=0.1, max_missing_share=0.2)
REGRESSION = Label(column="y", task="regression")

SUITES: dict[str, tuple[Suite, Callable[[], pl.DataFrame]]] = {
    "raw_table": (suites.raw_table(PARTY, IDS, CHECKS), raw),
    "raw_table/undeclared": (suites.raw_table(UNDECLARED, IDS, CHECKS), raw),
    "raw_table/regression": (suites.raw_table(NUMBERS, IDS, CHECKS), raw),
    "new_rows": (suites.new_rows(PARTY, IDS, CHECKS, 100), lambda: raw().drop("y")),
    "preprocessed_table": (
        suites.preprocessed_table(dict.fromkeys("ab", DOMAIN), ROWS),
        ranks,
    ),
    "release": (suites.release(dict.fromkeys("ab", DOMAIN), ROWS), ranks),
    "release/sparse": (suites.release(dict.fromkeys("ab", DOMAIN), ROWS, False), codes),
    "training_frame": (suites.training_frame(NAMES, LABEL, 2, ROWS, BANK), frame),
    "training_frame/regression": (
        suites.training_frame(NAMES, REGRESSION, 0, ROWS, BANK),
        frame,
    ),
    "model": (suites.model("binary"), predictions),
    "model/regression": (suites.model("regression"), predictions),
    "scores": (suites.scores("id", "binary", ["no", "yes"], ROWS, PROBABILITIES), scored),
    "scores/regression": (suites.scores("id", "regression", [], ROWS), scored),
}

Change = Callable[[pl.DataFrame], pl.DataFrame]


def put(column: str, *values: object) -> Change:
    """Overwrite the first rows of a column."""

    def change(table: pl.DataFrame) -> pl.DataFrame:
        cells = [*values, *table.get_column(column).to_list()[len(values) :]]
        return table.with_columns(pl.Series(column, cells, strict=False))

    return change


def without(column: str) -> Change:
    return lambda table: table.drop(column)


def constant(column: str, value: object) -> Change:
    return lambda table: table.with_columns(pl.lit(value).alias(column))


def drop_row(table: pl.DataFrame) -> pl.DataFrame:
    return table.head(-1)


def as_float(column: str) -> Change:
    return lambda table: table.with_columns(pl.col(column).cast(pl.Float64))


NAN, INF = math.nan, math.inf
RANKED = {
    ("table", "table_row_count_to_equal", ""): [drop_row],
    ("column", "column_values_to_not_be_null", ""): [put("a", None)],
    ("column", "column_values_to_be_in_type_list", ""): [as_float("a")],
    ("dense", "column_min_to_be_between", ""): [
        lambda t: t.with_columns(pl.col("a") + 1),
        put("a", 0),
    ],
    ("sparse", "column_min_to_be_between", ""): [put("a", 0)],
    ("column", "column_max_to_be_between", ""): [put("a", 11)],
    ("dense", "column_values_to_be_in_set", "rank_gap"): [
        lambda t: t.with_columns(a=pl.when(pl.col("a") == 3).then(4).otherwise(pl.col("a")))
    ],
}

#: What of a training table is a matter of each row.
ROW_BY_ROW: Mapping[tuple[str, str, str], list[Change]] = {
    ("id", "column_to_exist", ""): [without("id")],
    ("id", "column_values_to_not_be_null", ""): [put("id", None)],
    ("id", "column_values_to_be_unique", ""): [put("id", CANARY_TEXT, CANARY_TEXT)],
    ("text_id", "column_value_lengths_to_be_between", ""): [put("id", "")],
    ("feature", "column_to_exist", ""): [without("age"), without("size")],
    ("complete", "column_values_to_not_be_null", ""): [put("age", None), put("age", NAN)],
    ("partial", "column_values_to_not_be_null", ""): [put("gap", *[None] * 9)],
    ("numeric", "column_values_to_be_between", ""): [put("age", INF), put("age", -INF)],
    ("bounded", "column_values_to_be_between", ""): [put("age", *[CANARY] * 5)],
    ("categorised", "column_values_to_be_in_set", "category"): [put("size", CANARY_TEXT)],
}

FAULTS: Mapping[str, Mapping[tuple[str, str, str], list[Change]]] = {
    "new_rows": ROW_BY_ROW,
    "raw_table": {
        **ROW_BY_ROW,
        ("feature", "column_unique_value_count_to_be_between", ""): [
            constant("age", 3.0),
            constant("gap", None),
            constant("size", "1"),
        ],
        ("label", "column_to_exist", ""): [without("y")],
        ("label", "column_values_to_not_be_null", ""): [put("y", None)],
        ("class_label", "column_unique_value_count_to_be_between", ""): [
            constant("y", 0),
            put("y", 2),
        ],
        ("declared_label", "column_values_to_be_in_set", "class"): [put("y", 48151623)],
        ("number_label", "column_values_to_be_between", ""): [
            lambda t: put("y", INF)(as_float("y")(t))
        ],
    },
    "preprocessed_table": {
        ("table", "table_row_count_to_equal", ""): [drop_row],
        ("column", "column_values_to_not_be_null", ""): [put("a", None)],
        ("column", "column_values_to_be_in_type_list", ""): [as_float("b")],
        ("column", "column_values_to_be_between", ""): [put("a", 0), put("b", 11)],
    },
    "release": RANKED,
    "training_frame": {
        ("table", "table_row_count_to_equal", ""): [drop_row],
        ("feature", "column_to_exist", ""): [without("own.x"), without("bank.a")],
        ("complete", "column_values_to_not_be_null", ""): [put("bank.a", None)],
        ("ranked", "column_values_to_be_between", ""): [put("bank.a", 0.0), put("bank.a", CANARY)],
        ("label", "column_to_exist", ""): [without("label")],
        ("label", "column_values_to_not_be_null", ""): [put("label", None)],
        ("class_label", "column_unique_value_count_to_be_between", ""): [constant("label", 0.0)],
        ("class_label", "column_values_to_be_in_set", ""): [put("label", CANARY)],
        ("number_label", "column_values_to_be_between", ""): [put("label", INF)],
    },
    "model": {
        ("prediction", "column_values_to_be_in_set", "not_a_number"): [put("prediction", NAN)],
        ("prediction", "column_values_to_be_between", ""): [put("prediction", INF)],
        ("probability", "column_values_to_be_between", ""): [
            put("prediction", -0.001),
            put("prediction", CANARY),
        ],
        ("threshold", "column_values_to_be_in_set", "not_a_number"): [put("threshold", NAN)],
        ("threshold", "column_values_to_be_between", ""): [
            put("threshold", -0.1),
            put("threshold", CANARY),
        ],
    },
    "scores": {
        ("table", "table_row_count_to_equal", ""): [drop_row],
        ("id", "column_values_to_not_be_null", ""): [put("id", None)],
        ("id", "column_values_to_be_unique", ""): [put("id", CANARY_TEXT, CANARY_TEXT)],
        ("prediction", "column_values_to_not_be_null", ""): [put("score", None)],
        ("prediction", "column_values_to_be_in_set", "not_a_number"): [put("score", NAN)],
        ("prediction", "column_values_to_be_between", ""): [put("score", INF)],
        ("probability", "column_values_to_be_between", ""): [
            put("score", -0.001),
            put("score", CANARY),
        ],
        ("class", "column_values_to_not_be_null", ""): [put("class", None)],
        ("class", "column_values_to_be_in_set", ""): [put("class", CANARY_TEXT)],
        ("share", "column_values_to_not_be_null", ""): [put("probability_no", None)],
        ("share", "column_values_to_be_between", ""): [put("probability_yes", CANARY)],
    },
}

CASES = [
    pytest.param(boundary, *key, change, id=f"{boundary}-{'-'.join(filter(None, key))}-{i}")
    for boundary, faults in FAULTS.items()
    for key, changes in faults.items()
    for i, change in enumerate(changes)
]


def templates(boundary: str) -> list[tuple[str, str, str]]:
    path = schemas_folder() / "expectations" / f"{boundary}.json"
    return [
        (e["for"], e["type"].removeprefix("expect_"), e.get("indicator", ""))
        for e in json.loads(path.read_text())["expectations"]
    ]


def test_every_expectation_of_every_template_has_a_fault() -> None:
    folder = schemas_folder() / "expectations"
    assert {path.stem for path in folder.glob("*.json")} == set(FAULTS)
    for boundary, faults in FAULTS.items():
        assert set(templates(boundary)) == set(faults)


@pytest.mark.parametrize("name", SUITES)
def test_a_good_table_passes(name: str) -> None:
    suite, good = SUITES[name]
    report = run_suite(suite, good().to_arrow())
    assert report.passed, [r for r in report.results if not r.success]
    assert len(report.results) == len(suite.expectations) > 0


def failed(report: Report) -> set[tuple[str, str]]:
    return {
        (result.expectation.removeprefix("expect_"), result.indicator)
        for result in report.results
        if not result.success
    }


@pytest.mark.parametrize(("boundary", "about", "expectation", "indicator", "change"), CASES)
def test_a_planted_fault_is_found(
    boundary: str, about: str, expectation: str, indicator: str, change: Change
) -> None:
    forms = {"number_label": f"{boundary}/regression", "sparse": f"{boundary}/sparse"}
    name = forms.get(about, boundary)
    suite, good = SUITES[name]
    table = change(good())
    report = run_suite(suite, table.to_arrow())
    assert report.passed is False
    assert (expectation, indicator) in failed(report)
    assert report.outside() == {"suite": boundary, "passed": False}
    assert_no_value(report)


def assert_no_value(report: Report) -> None:
    for text in (report.json().decode(), report.html().decode(), repr(report.outside())):
        assert CANARY_TEXT not in text
        assert "48151623" not in text


def test_a_share_within_the_policys_passes() -> None:
    suite, good = SUITES["raw_table"]
    assert run_suite(suite, put("age", *[CANARY] * 4)(good()).to_arrow()).passed
    assert run_suite(suite, put("gap", *[None] * 8)(good()).to_arrow()).passed

"""Every expectation of every suite: a table that keeps it, and a fault that it finds."""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import great_expectations as gx
import polars as pl
import pytest

from opboost_ops.config.feature import Feature, Fill
from opboost_ops.config.federation import IdColumn, Label, Party
from opboost_ops.config.policy import Checks
from opboost_ops.config.resources import shipped
from opboost_ops.domain import Domain
from opboost_ops.quality import suites
from opboost_ops.quality.checks import run_suite
from opboost_ops.quality.profile import COLUMNS
from opboost_ops.quality.suites import Suite
from opboost_ops.quality.validation import Report
from opboost_ops.reports.checks import report_blocks
from opboost_ops.reports.display.html import document_html

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
RELEASED = PARTY.model_copy(update={"role": "feature_holder", "label": None})
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
    "first_release": (suites.first_release(RELEASED, IDS, CHECKS), raw),
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

#: Faults of each row, by what the profile measures.
ROW_BY_ROW: Mapping[str, list[Change]] = {
    "usable": [
        without("id"),
        without("age"),
        without("size"),
        lambda t: t.with_columns(age=pl.lit(CANARY_TEXT)),
        lambda t: t.with_columns(size=pl.concat_list("size")),
    ],
    "gaps": [put("id", None), put("age", None), put("age", NAN)],
    "missing_share": [put("gap", *[None] * 9)],
    "repeated": [put("id", CANARY_TEXT, CANARY_TEXT)],
    "empty": [put("id", "")],
    "not_finite": [put("age", INF), put("age", -INF)],
    "outside_share": [put("age", *[CANARY] * 5)],
    "undeclared": [put("size", CANARY_TEXT)],
}

INTEGERS: Mapping[str, list[Change]] = {
    "rows": [drop_row],
    "usable": [without("b"), as_float("a"), as_float("b")],
    "gaps": [put("a", None)],
    "outside": [put("a", 0), put("b", 11)],
}

FAULTS: Mapping[str, Mapping[str, list[Change]]] = {
    "new_rows": ROW_BY_ROW,
    "raw_table": {
        **ROW_BY_ROW,
        "usable": [*ROW_BY_ROW["usable"], without("y")],
        "gaps": [*ROW_BY_ROW["gaps"], put("y", None)],
        "undeclared": [*ROW_BY_ROW["undeclared"], put("y", 48151623)],
        "classes": [constant("y", 0), put("y", 2)],
        "distinct": [constant("age", 3.0), constant("town", "north")],
    },
    "first_release": {
        **ROW_BY_ROW,
        "distinct": [constant("age", 3.0), constant("gap", None), constant("size", "1")],
    },
    "raw_table/regression": {"not_finite": [lambda t: put("y", INF)(as_float("y")(t))]},
    "preprocessed_table": INTEGERS,
    "release": {
        **INTEGERS,
        "unused_ranks": [
            lambda t: t.with_columns(pl.col("a") + 1),
            lambda t: t.with_columns(a=pl.when(pl.col("a") == 3).then(4).otherwise(pl.col("a"))),
        ],
    },
    "release/sparse": {"outside": [put("a", 0), put("a", 11)]},
    "training_frame": {
        "rows": [drop_row],
        "usable": [
            without("own.x"),
            without("bank.a"),
            lambda t: t.with_columns(pl.lit(CANARY_TEXT).alias("bank.a")),
        ],
        "gaps": [put("bank.a", None), put("label", None)],
        "outside": [put("bank.a", 0.0), put("bank.a", CANARY)],
        "undeclared": [put("label", CANARY)],
        "classes": [constant("label", 0.0)],
    },
    "training_frame/regression": {"not_finite": [put("label", INF)]},
    "model": {
        "usable": [
            without("threshold"),
            lambda t: t.with_columns(prediction=pl.lit(CANARY_TEXT)),
        ],
        "not_finite": [put("prediction", NAN), put("prediction", INF), put("threshold", NAN)],
        "outside": [
            put("prediction", -0.001),
            put("prediction", CANARY),
            put("threshold", -0.1),
            put("threshold", CANARY),
        ],
    },
    "scores": {
        "rows": [drop_row],
        "usable": [without("class"), lambda t: t.with_columns(score=pl.lit(CANARY_TEXT))],
        "gaps": [put("id", None), put("score", None), put("class", None), put("score", NAN)],
        "repeated": [put("id", CANARY_TEXT, CANARY_TEXT)],
        "not_finite": [put("score", INF)],
        "outside": [put("score", -0.001), put("probability_yes", CANARY)],
        "undeclared": [put("class", CANARY_TEXT)],
    },
}

CASES = [
    pytest.param(
        name, measure, change, id=f"{name}-{measure}-{i}", marks=[pytest.mark.slow] if i else []
    )
    for name, faults in FAULTS.items()
    for measure, changes in faults.items()
    for i, change in enumerate(changes)
]


def declared(boundary: str) -> list[str]:
    """The measure of each expectation of a suite."""
    document = json.loads(suites.expectations(boundary))
    return [expectation["kwargs"]["column"] for expectation in document["expectations"]]


def test_every_expectation_has_a_fault() -> None:
    folder = shipped("schemas") / "expectations"
    boundaries = {name.partition("/")[0] for name in FAULTS}
    assert {path.stem for path in folder.glob("*.json")} == {*boundaries, "drift"}
    for boundary in boundaries:
        faults = {m for name, of in FAULTS.items() if name.startswith(boundary) for m in of}
        assert set(declared(boundary)) == faults


@pytest.mark.parametrize("path", (shipped("schemas") / "expectations").glob("*.json"), ids=str)
def test_great_expectations_loads_a_suite_as_it_is(path: Path) -> None:
    document = json.loads(path.read_text())
    suite = gx.ExpectationSuite(**document)
    assert suite.name == path.stem
    written: Any = suite.to_json_dict()["expectations"]
    assert [e["type"] for e in written] == [e["type"] for e in document["expectations"]]
    assert [e["severity"] for e in written] == [e["severity"] for e in document["expectations"]]


@pytest.mark.parametrize("name", SUITES)
def test_a_good_table_passes(name: str) -> None:
    suite, good = SUITES[name]
    report = run_suite(suite, good().to_arrow())
    assert (report.passed, report.findings) == (True, ())
    assert len(report.document["results"]) == len(declared(suite.name)) > 0
    assert [row["column"] for row in report.profile] == [each.column for each in suite.columns]
    assert all(set(row) == set(COLUMNS) for row in report.profile)


@pytest.mark.parametrize(("name", "measure", "change"), CASES)
def test_a_planted_fault_is_found(name: str, measure: str, change: Change) -> None:
    suite, good = SUITES[name]
    report = run_suite(suite, change(good()).to_arrow())
    warned = (suite.name, measure) == ("raw_table", "distinct")
    assert report.passed is warned
    found = {finding.measure: finding for finding in report.findings}
    assert found[measure].column
    assert found[measure].severity == ("warning" if warned else "critical")
    assert report.outside() == {"suite": suite.name, "passed": warned}
    assert_no_value(report)


def assert_no_value(report: Report) -> None:
    shown = document_html("", "", report_blocks(report))
    for text in (shown, repr(report.outside()), str(report.findings)):
        assert CANARY_TEXT not in text
        assert "48151623" not in text


def test_a_share_within_the_policys_passes() -> None:
    suite, good = SUITES["raw_table"]
    assert run_suite(suite, put("age", *[CANARY] * 4)(good()).to_arrow()).passed
    assert run_suite(suite, put("gap", *[None] * 8)(good()).to_arrow()).passed

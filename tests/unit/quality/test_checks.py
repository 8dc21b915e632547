"""Nothing of a table's values survives a check."""

import logging
import os
import subprocess
import sys
import traceback
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from opboost_ops.config.feature import Feature
from opboost_ops.config.federation import IdColumn, Party
from opboost_ops.config.policy import Checks
from opboost_ops.errors import ContractError
from opboost_ops.quality import suites
from opboost_ops.quality.checks import run_suite
from opboost_ops.quality.suites import Suite
from tests.unit.quality.test_suites import ROWS, SUITES, put, raw

TEXT = "zq7canary48151623"
NUMBER = 48151623.421875
CANARIES = (TEXT, "48151623", "zq7")
RAW, _ = SUITES["raw_table"]


def canaries() -> pa.Table:
    """Every column is full of canaries, and every expectation has something to complain of."""
    return pa.table(
        {
            "id": [TEXT, TEXT, "", *[f"{TEXT}{i}" for i in range(ROWS - 3)]],
            "size": [f"{TEXT}{i}" for i in range(ROWS)],
            **dict.fromkeys(("age", "gap"), [NUMBER] * ROWS),
            **dict.fromkeys(("town", "y"), [TEXT] * ROWS),
        }
    )


def clean(told: str | bytes) -> bool:
    text = told.decode() if isinstance(told, bytes) else told
    return not any(canary in text for canary in CANARIES)


def test_no_value_is_in_a_report_a_log_or_the_terminal(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("great_expectations").setLevel(logging.DEBUG)
        report = run_suite(RAW, canaries())
    assert not report.passed
    shown = capfd.readouterr()
    told = (report.json(), report.html(), repr(report), str(report.outside()), caplog.text)
    for text in (*told, shown.out, shown.err):
        assert clean(text)
    assert shown.out + shown.err == ""
    assert "great_expectations" not in caplog.text


def test_counts_are_right() -> None:
    data = raw()
    for change in (put("id", "p3", ""), put("age", None), put("size", "7", "8", "9", "7")):
        data = change(data)
    results = {
        (r.column, r.indicator or r.expectation): r
        for r in run_suite(RAW, data.to_arrow()).results
        if not r.success
    }
    found = {key: (r.unexpected, r.rows) for key, r in results.items()}
    assert found == {
        ("id", "expect_column_values_to_be_unique"): (2, ROWS),
        ("id", "expect_column_value_lengths_to_be_between"): (1, ROWS),
        ("age", "expect_column_values_to_not_be_null"): (1, ROWS),
        ("size", "category"): (4, ROWS),
    }
    assert results["size", "category"].percent == 10


def test_an_expectation_that_cannot_be_looked_at_has_failed() -> None:
    bounds = {"column": "id", "min_value": 0, "max_value": 1}
    mean = {"type": "expect_column_mean_to_be_between", "kwargs": bounds}
    report = run_suite(Suite("raw_table", (), (mean,)), canaries())
    (result,) = report.results
    assert (result.success, result.evaluated, report.passed) == (False, False, False)
    assert "could not be checked" in result.words
    assert clean(report.json())
    assert clean(report.html())


@pytest.mark.parametrize("own", [False, True])
def test_a_foreign_error_loses_its_text(own: bool) -> None:
    unknown = ({"type": "expect_nothing", "kwargs": {"column": "age"}},)
    suite = Suite("raw_table", (), unknown) if own else Suite("raw_table", unknown)
    with pytest.raises(ContractError) as caught:
        run_suite(suite, canaries())
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "raw_table" in str(caught.value)
    assert clean("".join(traceback.format_exception(caught.value)))


def test_no_folder_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    run_suite(RAW, raw().to_arrow())
    assert list(tmp_path.rglob("*")) == []


def test_nothing_heavy_is_imported_with_the_module_and_nothing_is_reported_home() -> None:
    program = (
        "import os, sys; os.environ['GX_ANALYTICS_ENABLED'] = 'true'; "
        "import opboost_ops.quality.checks; "
        "assert not {'great_expectations', 'pandas'} & set(sys.modules); "
        "assert os.environ['GX_ANALYTICS_ENABLED'] == 'false'"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ})


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_all_kinds_of_arrow_text(kind: pa.DataType) -> None:
    data = raw().to_arrow()
    data = data.set_column(0, "id", data.column("id").cast(kind))
    assert run_suite(RAW, data).passed


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["1", "2", "3"]), pl.String, pl.Int8])
def test_all_kinds_of_categories(kind: Any) -> None:
    frame = raw().with_columns(pl.col("size").cast(kind))
    assert run_suite(RAW, frame.to_arrow()).passed


def test_integer_ids_are_exact() -> None:
    """Floats would make neighbours of these the same."""
    suite = suites.raw_table(
        Party.model_construct(features={}, label=None),
        IdColumn(column="person", type="integer"),
        Checks(),
    )
    ids = pa.array([2**60 + i for i in range(ROWS)])
    assert run_suite(suite, pa.table({"person": ids})).passed


class _Page(HTMLParser):
    """Tags, links and balance of a page."""

    void = ("meta", "link", "img", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.outside += [f"{tag} {k}" for k, _ in attrs if k in ("src", "href", "srcset", "action")]
        self.outside += [tag] if tag in ("script", "link", "iframe", "img") else []
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("boundary", SUITES)
def test_the_page_is_whole_and_loads_nothing(boundary: str) -> None:
    suite, good = SUITES[boundary]
    report = run_suite(suite, good().to_arrow())
    text = report.html().decode()
    page = _Page()
    page.feed(text)
    assert page.open == []
    assert page.outside == []
    for foreign in ("http", "//", "url(", "@import"):
        assert foreign not in text
    assert "color-scheme: light dark" in text
    assert 'name="viewport"' in text
    assert "expect_" not in text
    assert text.count("<tr") == len(report.results) + 1


def test_the_page_names_what_failed_first_and_escapes_names() -> None:
    name = "<script>alert(1)</script>"
    feature = Feature(uuid="00000000-0000-0000-0000-000000000001", bounds=(0, 1))
    suite = suites.raw_table(
        Party.model_construct(features={name: feature}, label=None),
        IdColumn(column="person", type="string"),
        Checks(),
    )
    data = pa.table({"person": ["a", "b"], name: [0.5, None]})
    text = run_suite(suite, data).html().decode()
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert text.index('class="fail"><td') < text.index('class="pass"><td')
    assert "no value is missing" in text

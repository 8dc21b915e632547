"""Nothing of a table's values survives a check."""

import logging
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from opboost_ops.config.feature import Feature
from opboost_ops.config.federation import IdColumn, Party
from opboost_ops.config.policy import Checks
from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.extras.export.data_docs import write_data_docs
from opboost_ops.quality import suites
from opboost_ops.quality.checks import run_suite
from opboost_ops.quality.validation import Report
from opboost_ops.reports.checks import report_blocks
from opboost_ops.reports.display.html import document_html
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


def page_of(report: Report) -> str:
    return document_html("Data quality", "", report_blocks(report))


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
    told = (page_of(report), str(report.findings), str(report.outside()), caplog.text)
    for text in (*told, shown.out, shown.err):
        assert clean(text)
    assert shown.out + shown.err == ""
    assert "great_expectations" not in caplog.text


def test_counts_are_right() -> None:
    data = raw()
    for change in (put("id", "p3", ""), put("age", None), put("size", "7", "8", "9", "7")):
        data = change(data)
    report = run_suite(RAW, data.to_arrow())
    found = {(each.column, each.measure): each.value for each in report.findings}
    assert found == {
        ("id", "repeated"): 2,
        ("id", "empty"): 1,
        ("age", "gaps"): 1,
        ("size", "undeclared"): 4,
    }


def test_an_expectation_that_cannot_be_evaluated_has_failed() -> None:
    mean = {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "role"}}
    report = run_suite(replace(RAW, own=(mean,)), raw().to_arrow())
    (finding,) = report.findings
    assert (finding.evaluated, report.passed) == (False, False)
    assert "not evaluated" in page_of(report)


def test_a_partys_own_expectation_is_of_one_column_and_has_a_severity() -> None:
    own: dict[str, Any] = {
        "type": "expect_column_values_to_be_between",
        "kwargs": {
            "column": "maximum",
            "max_value": 30,
            "row_condition": 'column == "age"',
            "condition_parser": "pandas",
        },
    }
    report = run_suite(replace(RAW, own=(own,)), raw().to_arrow())
    (finding,) = report.findings
    assert (finding.column, finding.value, report.passed) == ("age", None, False)
    assert "39" not in page_of(report).replace("<", " ").split(), "a value of the table"
    warned = run_suite(replace(RAW, own=({**own, "severity": "warning"},)), raw().to_arrow())
    assert (warned.passed, warned.warnings) == (True, 1)
    typo = {**own, "kwargs": {**own["kwargs"], "row_condition": 'column == "aeg"'}}
    with pytest.raises(ConfigError, match="selects no column"):
        run_suite(replace(RAW, own=(typo,)), raw().to_arrow())


def test_a_foreign_error_loses_its_text() -> None:
    def read(_: Sequence[str]) -> Iterator[pl.DataFrame]:
        raise ValueError(TEXT)
        yield

    with pytest.raises(ContractError, match="raw_table"):
        run_suite(replace(RAW, own=({"type": "expect_nothing", "kwargs": {}},)), canaries())
    with pytest.raises(ContractError) as caught:
        run_suite(RAW, read)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "raw_table" in str(caught.value)
    assert clean("".join(traceback.format_exception(caught.value)))


def test_data_docs_show_what_great_expectations_and_the_page_show(tmp_path: Path) -> None:
    """One failing table: its columns and counts by each of the three."""
    report = run_suite(RAW, put("size", "7", "8", "9", "7")(raw()).to_arrow())
    (tmp_path / "raw_table.json").write_bytes(report.json())
    index = write_data_docs([tmp_path / "raw_table.json"], tmp_path / "docs")
    assert index.is_file()
    (docs,) = (tmp_path / "docs" / "validations").rglob("*.html")
    (failed,) = [each for each in report.document["results"] if not each["success"]]
    assert failed["result"]["unexpected_index_list"] == [{"column": "size", "undeclared": 4}]
    for text in (docs.read_text(), page_of(report)):
        assert "Every value is declared" in text
        assert "size" in text


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


@pytest.mark.slow
def test_a_check_imports_statistics_and_charts_only_for_an_expectation_that_needs_them() -> None:
    program = """if True:
        import sys
        from opboost_ops.quality.suites import expectations
        from opboost_ops.quality.validation import validate
        profile = [{"column": name, "index": 0.0, "limit": 1.0} for name in "ab"]
        assert validate(expectations("drift"), profile, {})["success"]
        assert not {"altair", "boto3", "jsonschema", "scipy.stats"} & set(sys.modules)
        kwargs = {
            "column": "limit",
            "partition_object": {"bins": [0.5, 1.0, 1.5], "weights": [0.0, 1.0]},
            "threshold": 0.1,
        }
        divergence = {"type": "expect_column_kl_divergence_to_be_less_than", "kwargs": kwargs}
        assert validate(expectations("drift"), profile, {}, [divergence])["success"]
        from scipy.stats import norm
        assert norm.cdf(0) == 0.5
        import boto3
        assert boto3.session.Session
    """
    subprocess.run([sys.executable, "-c", program], check=True)


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
        Party.model_construct(role="label_holder", features={}, label=None),
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
    text = page_of(run_suite(suite, good().to_arrow()))
    page = _Page()
    page.feed(text)
    assert page.open == []
    assert page.outside == []
    assert "expect_" not in text


def test_the_page_names_what_failed_first_and_escapes_names() -> None:
    name = "<script>alert(1)</script>"
    feature = Feature(uuid="00000000-0000-0000-0000-000000000001", bounds=(0, 1))
    suite = suites.raw_table(
        Party.model_construct(role="label_holder", features={name: feature}, label=None),
        IdColumn(column="person", type="string"),
        Checks(),
    )
    data = pa.table({"person": ["a", "b"], name: [0.5, None]})
    text = page_of(run_suite(suite, data))
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert text.index("No value is missing") < text.index("The column is there")

"""``expectations.yaml``: more may be expected, never less."""

from dataclasses import replace
from pathlib import Path

import pytest

from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError
from opboost_ops.quality import suites
from opboost_ops.quality.checks import tightened

SUITE = suites.release({"income": Domain(1, 10)}, 10)
MORE = """
release:
  - type: expect_column_values_to_be_between
    kwargs: {column: maximum, max_value: 5, row_condition: 'column == "income"',
             condition_parser: pandas}
"""


def test_without_the_file_nothing_changes(tmp_path: Path) -> None:
    assert tightened(SUITE, tmp_path) is SUITE


def test_expectations_are_added_and_none_taken_away(tmp_path: Path) -> None:
    (tmp_path / "expectations.yaml").write_text(MORE)
    more = tightened(SUITE, tmp_path)
    assert more == replace(SUITE, own=more.own)
    assert [e["kwargs"]["max_value"] for e in more.own] == [5]
    (tmp_path / "expectations.yaml").write_text("release: []\nraw_table: []\n")
    assert tightened(SUITE, tmp_path) == SUITE


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("release: [", "not valid YAML at line 2"),
        ("- a", "mapping"),
        ("release: 3", "list"),
        ("release: [3]", "type and kwargs"),
        ("release: [{type: expect_column_to_exist}]", "type and kwargs"),
        ("release: [{kwargs: {column: rows}}]", "type: is missing"),
        ("release: [{type: expect_miracles, kwargs: {column: rows}}]", "expect_miracles"),
        (
            "release: [{type: expect_column_to_exist, kwargs: {column: income}}]",
            "not a column of the profile",
        ),
        ("releasee: []", "releasee"),
        (
            "release: [{type: expect_column_to_exist, kwargs: {column: rows, "
            "result_format: COMPLETE}}]",
            "result_format",
        ),
    ],
)
def test_a_wrong_file_says_where(tmp_path: Path, text: str, word: str) -> None:
    (tmp_path / "expectations.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"expectations\.yaml") as caught:
        tightened(SUITE, tmp_path)
    assert word in str(caught.value)

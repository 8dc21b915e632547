"""What the page about horizontal learning says was measured is what the committed summaries say."""

import json
from pathlib import Path
from typing import Any

from benchmarks.papers.horizontal_audit import section

DOCS = Path(__file__).parents[3] / "docs"
PAGE = " ".join((DOCS / "horizontal.md").read_text().split())


def summary(name: str) -> Any:
    return json.loads((DOCS / "evaluation" / f"{name}.json").read_text())


def test_equal_to_lightgbm_on_the_pooled_rows_and_the_same_bins() -> None:
    rows = summary("horizontal")["rows"]
    assert {row["missing"] for row in rows} == {"none", "filled", "kept"}
    assert max(round(abs(row["difference"]), 2) for row in rows) <= 0.01
    assert "to 0.01 points of AUC" in PAGE


def test_the_table_with_a_guarantee() -> None:
    page = (DOCS / "evaluation-federboost.md").read_text()
    for row in summary("horizontal-private")["rows"]:
        assert f" {row['auc']:.2f}" in page, row


def test_the_audit() -> None:
    found = summary("horizontal-audit")
    assert found["runs"] >= 10_000
    assert 0 < found["lower_bound"] <= found["epsilon"]
    said = f"{found['runs']:,} sessions a side it gave {found['lower_bound']:.3f}, where"
    assert said in PAGE and f"`{found['command']}`" in PAGE
    cells = (found["lower_bound"], found["gaussian_bound"], found["epsilon"])
    assert " | ".join(f"{cell:.3f}" for cell in cells) in section(found, DOCS)

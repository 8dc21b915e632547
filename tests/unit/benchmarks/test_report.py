"""The report says what the summaries say."""

import json
import re
from pathlib import Path

import pytest

from benchmarks.papers import experiments, report

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.slow
def test_the_committed_report_is_made_of_the_committed_summaries(tmp_path: Path) -> None:
    (tmp_path / "evaluation").mkdir()
    for path in (DOCS / "evaluation").glob("*.json"):
        (tmp_path / "evaluation" / path.name).write_bytes(path.read_bytes())
    report.write(tmp_path)
    made = {path.name: path.read_text() for path in tmp_path.rglob("evaluation*.md")}
    committed = {path.name: path.read_text() for path in DOCS.rglob("evaluation*.md")}
    assert made == committed, "python -m benchmarks.papers report"
    text = "".join(made.values())
    drawn = {path.name for path in (tmp_path / "figures").iterdir()}
    assert drawn == set(re.findall(r"\]\((?:\.\./)?figures/([^)]+)\)", text))
    assert drawn <= {path.name for path in (DOCS / "figures").iterdir()}


def test_every_summary_is_whole_and_has_its_section() -> None:
    found = {path.stem: json.loads(path.read_text()) for path in (DOCS / "evaluation").glob("*")}
    assert set(found) <= {experiment.name for experiment in experiments()}
    pages = "".join(path.read_text() for path in DOCS.rglob("evaluation*.md"))
    assert [s["command"] for s in found.values() if f"$ {s['command']}\n" not in pages] == []
    assert {"federation", "accuracy", "privacy"} <= set(found)
    for name, summary in found.items():
        assert not summary.get("quick"), name
        assert "/" not in summary["command"].replace("docs/evaluation/", ""), name

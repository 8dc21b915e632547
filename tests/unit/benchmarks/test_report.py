"""The report says what the summaries say, and so do the documents that quote it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.papers import experiments, report
from benchmarks.papers.federation import MODES
from opboost_ops.errors import ConfigError

DOCS = Path(__file__).parents[3] / "docs"
README = DOCS.parent / "README.md"


@pytest.mark.slow
def test_the_committed_report_is_made_of_the_committed_summaries(tmp_path: Path) -> None:
    (tmp_path / "evaluation").mkdir()
    for path in (DOCS / "evaluation").glob("*.json"):
        (tmp_path / "evaluation" / path.name).write_bytes(path.read_bytes())
    readme = tmp_path / "README.md"
    readme.write_text(README.read_text())
    report.write(tmp_path, readme)
    assert readme.read_text() == README.read_text(), "python -m benchmarks.papers report"
    made = {path.name: path.read_text() for path in tmp_path.glob("evaluation*.md")}
    committed = {path.name: path.read_text() for path in DOCS.glob("evaluation*.md")}
    assert made == committed, "python -m benchmarks.papers report"
    text = "".join(made.values())
    drawn = {path.name for path in (tmp_path / "figures").iterdir()}
    assert drawn == set(re.findall(r"\]\(figures/([^)]+)\)", text))
    assert drawn <= {path.name for path in (DOCS / "figures").iterdir()}


def test_every_summary_is_whole_and_has_its_section() -> None:
    found = {path.stem: json.loads(path.read_text()) for path in (DOCS / "evaluation").glob("*")}
    assert set(found) <= {experiment.name for experiment in experiments()}
    pages = "".join(path.read_text() for path in DOCS.glob("evaluation*.md"))
    assert [s["command"] for s in found.values() if f"$ {s['command']}\n" not in pages] == []
    assert {"federation", "accuracy", "privacy"} <= set(found)
    for name, summary in found.items():
        assert not summary.get("quick"), name
        assert "/" not in summary["command"].replace("docs/evaluation/", ""), name


def test_the_readme_quotes_what_a_summary_says() -> None:
    quoted = report.quoting(README.read_text(), report.read(DOCS / "evaluation"))
    assert quoted == README.read_text()
    (names,) = {tuple(re.findall(r"<!-- evaluation: ([\w-]+) -->", quoted))}
    assert "federation" in names


def lines(ratio: float) -> dict[str, Any]:
    figures = dict.fromkeys(MODES, ratio)
    spread = {f"{name}_sd": 0.01 for name in figures}
    row = {"dataset": "t", "epsilon": 1.0, "metric": "auc", "seeds": 3, **figures, **spread}
    return {"name": "federation", "domain": [1, 10], "rows": [row], "command": "c"}


def test_a_quotation_follows_its_summary() -> None:
    text = "Before.\n<!-- evaluation: federation -->\nstale words\n<!-- end -->\nAfter.\n"
    new = report.quoting(text, {"federation": lines(0.75)})
    assert "| t, 1 | AUC | 0.7500 ± 0.0100 |" in new
    assert "stale words" not in new
    assert new.startswith("Before.\n<!--")
    assert new.endswith("<!-- end -->\nAfter.\n")
    assert report.quoting(new, {"federation": lines(0.75)}) == new


def test_a_quotation_of_nothing_is_an_error(tmp_path: Path) -> None:
    text = "<!-- evaluation: federation -->\n<!-- end -->\n"
    with pytest.raises(ConfigError, match="no summary"):
        report.quoting(text, {})
    with pytest.raises(ConfigError, match="There is no summary in"):
        report.read(tmp_path)

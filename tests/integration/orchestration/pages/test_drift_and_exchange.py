"""Drift by feature and over time; who sent what to whom among few parties and among many."""

import html
import re
from itertools import pairwise

import pytest

from opboost_ops.quality.suites import expectations
from opboost_ops.quality.validation import Report, validate
from opboost_ops.reports.display.charts import TOO_MANY_PARTIES, Message, sequence_diagram
from tests.federation import FIRST_RUN, SECOND_RUN, Workspace
from tests.integration.orchestration.pages.conftest import Reader
from tests.integration.orchestration.pages.reading import plain, rows

PAGE = f"quality/bank/credit_scoring/{SECOND_RUN}/drift"


def row(feature: str, index: float) -> dict[str, object]:
    shares = {"missing": 0.02, "missing_then": 0.01, "clipped": 0.0, "clipped_then": 0.0}
    return {"column": feature, "index": index, "limit": 0.25, "most": 0.25, "chance": 0.1, **shares}


@pytest.fixture
def drifted(shown: Workspace) -> Workspace:
    """Two runs with a comparison of their tables each, as the stage writes it."""
    home = shown.folder / "bank" / "home" / "credit_scoring"
    for run, index in ((FIRST_RUN, 0.125), (SECOND_RUN, 0.5)):
        rows = [row("balance", 0.01), row("income", index)]
        report = Report.of(validate(expectations("drift"), rows, {}), rows, 0.1)
        (home / run / "quality" / "drift.json").write_bytes(report.json())
    return shown


def test_the_drift_page_has_a_column_for_each_figure(reader: Reader, drifted: Workspace) -> None:
    """All figures stood in one sentence, and most columns were empty."""
    found = rows(reader, PAGE, "bank.drift")
    assert [line["feature"] for line in found] == ["income", "balance"]
    assert found[0]["result"] == "drift"
    assert (float(found[0]["index"]), float(found[0]["by chance"])) == (0.5, 0.1)
    assert float(found[0]["missing now"]) == 0.02
    assert all(value != "" for line in found for value in line.values())
    assert "1 of 2 features" in plain(reader.page(PAGE))


def test_drift_over_time_by_feature(reader: Reader, drifted: Workspace) -> None:
    assert "income: from 0.125 to 0.5" in reader.page(PAGE)
    earlier = reader.page(PAGE.replace(SECOND_RUN, FIRST_RUN))
    assert "Drift over time" not in earlier, "what came later is no part of a run's page"
    damaged = drifted.folder / "bank" / "home" / "credit_scoring" / FIRST_RUN / "quality"
    (damaged / "drift.json").write_text("{]")
    assert "Drift over time" not in reader.page(PAGE)


def test_every_party_and_message_has_its_own_place() -> None:
    """Beyond two runs the third party was behind the edge."""
    names = [
        "holder",
        *(f"regional_savings_bank_{at:02d}" for at in range(1, TOO_MANY_PARTIES - 1)),
    ]
    there = [Message(name, "holder", "ranks", name != names[1], "1.0 kB") for name in names[1:]]
    svg = str(sequence_diagram(names, [Message("holder", None, "plan", True), *there], title="run"))
    (width,) = (float(found) for found in re.findall(r'viewBox="0 0 (\d+)', svg))
    placed = re.findall(r'<text class="party" x="(\d+)" y="\d+">([^<]+)</text>', svg)
    # At most seven units a letter, and centred.
    ends = [(float(x) - 3.5 * len(name), float(x) + 3.5 * len(name)) for x, name in placed]
    assert all(before[1] <= after[0] + 1 for before, after in pairwise(ends))
    assert ends[-1][1] <= width + 1
    assert len(re.findall(r'class="sent k\d broken"', svg)) == 1
    label = html.unescape(re.findall(r'aria-label="([^"]+)"', svg)[0])
    assert "holder to all: plan" in label and f"{names[2]} to holder: ranks, 1.0 kB" in label

"""Versions over time and side by side say what each version's own files say."""

import json
import re

import pytest

from tests.federation import FIRST_RUN, Workspace
from tests.integration.orchestration.pages.conftest import Reader
from tests.integration.orchestration.pages.long_history import run_of
from tests.integration.orchestration.pages.reading import rows

TENTH = run_of(10)


def test_versions_have_dates_parameters_intervals_and_a_way_to_compare(
    reader: Reader, nights: Workspace
) -> None:
    """No dates, no parameters, and each reason in a column of one word's width."""
    found = {
        line["version"]: line for line in rows(reader, "models", "credit.versions_credit_scoring")
    }
    assert len(found) == 12
    assert found[TENTH]["decided (UTC)"] == "2026-01-15T03:00:00+00:00"
    assert found[TENTH]["trained with"] == "8 trees, depth 3, rate 0.1"
    evaluation = json.loads((nights.models / TENTH / "evaluation.json").read_text())
    auc = evaluation["intervals"]["federated_desensitised"]["auc"]
    assert float(found[TENTH]["auc (95 %)"]) == auc["value"]
    page = reader.page("models")
    assert f"({auc['low']:.4f} to {auc['high']:.4f})" in page
    assert "why" not in found[TENTH]
    champion = json.loads((nights.models / "champion.json").read_text())["version"]
    assert f"{champion}/beside/{TENTH}" in page
    assert ">2026-01-06<" in page and ">2026-01-17<" in page, "days, not the heads of names"


def test_two_versions_side_by_side(reader: Reader, nights: Workspace) -> None:
    path = f"models/credit/credit_scoring/{FIRST_RUN}/beside/{TENTH}"
    listed = rows(reader, path, "credit.parameters")
    assert listed[0]["what"] == "epsilon"
    differing = {line["what"] for line in listed if line["difference"] == "differs"}
    assert differing == {"trees"}
    folders = [nights.models / version for version in (FIRST_RUN, TENTH)]
    one, two = (json.loads((folder / "evaluation.json").read_text()) for folder in folders)
    auc = [e["intervals"]["federated_desensitised"]["auc"]["value"] for e in (one, two)]
    line = next(r for r in rows(reader, path, "credit.metrics") if r["metric"] == "auc")
    assert float(line["second minus first"]) == pytest.approx(auc[1] - auc[0])
    shares = rows(reader, path, "credit.importance")
    gaps = [abs(float(line["second minus first"])) for line in shares]
    assert gaps == sorted(gaps, reverse=True)
    cards = [json.loads((folder / "card.json").read_text()) for folder in folders]
    first = {(i["party"], i["feature"]): i["share"] for i in cards[0]["importance"]}
    for line in shares:
        share = first.get((line["party"], line["feature"]), 0.0)
        assert float(line["first, %"]) == pytest.approx(100 * share)
    # Both curves are on one picture, and its text tells both.
    (roc,) = re.findall(r'aria-label="(ROC: [^"]+)"', reader.page(path))
    assert "first: from" in roc and "second: from" in roc

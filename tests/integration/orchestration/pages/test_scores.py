"""How scores are distributed, on the pages of a version and of a run that scored."""

import json
from pathlib import Path
from typing import Any

import pytest

from opboost_ops import api
from opboost_ops.learning.distribution import MIN_PEOPLE
from tests.federation import FIRST_RUN, SCORING_RUN, Workspace
from tests.integration.orchestration.pages.conftest import Reader
from tests.integration.orchestration.pages.production import in_production
from tests.integration.orchestration.pages.reading import plain, rows

VERSION = f"models/credit/credit_scoring/{FIRST_RUN}"


def evaluation_of(workspace: Workspace) -> Path:
    return workspace.models / FIRST_RUN / "evaluation.json"


def test_a_versions_held_out_scores_in_a_picture_and_as_a_table(
    reader: Reader, untouched: Workspace
) -> None:
    kept = json.loads(evaluation_of(untouched).read_bytes())
    series = kept["distributions"]["desensitised"]["series"]
    listed = rows(reader, VERSION, "credit.held_out_scores")
    expected = [
        (one["name"], low, high, n)
        for one in series
        for low, high, n in zip(one["edges"], one["edges"][1:], one["counts"], strict=False)
    ]
    found = [(r["whose"], float(r["from"]), float(r["below"]), int(r["rows"])) for r in listed]
    assert found == expected
    assert found
    assert all(n == 0 or n >= MIN_PEOPLE for *_, n in found)
    text = reader.page(VERSION)
    assert series[0]["name"] == "class 0"
    assert f'aria-label="Distribution of scores. {series[0]["name"]}: ' in text
    # The other parties have no such picture, and nothing was scored yet.
    assert text.count('aria-label="Distribution of scores') == 1


def test_a_run_that_scored_shows_its_scores_beside_the_held_out_rows(
    reader: Reader, shown: Workspace
) -> None:
    shown.scoring().all()
    folder = shown.folder / "credit" / "home" / "credit_scoring" / "distributions" / FIRST_RUN
    kept = json.loads((folder / f"{SCORING_RUN}.json").read_bytes())
    text = reader.page(f"run?id={SCORING_RUN}")
    assert f"Mean score {kept['mean']:.4f} mode desensitised" in plain(text)
    assert "Distribution of scores. held-out rows: " in text
    assert "; this run: " in text
    # Who has scored comes first.
    assert text.index('<section id="credit"') < text.index('<section id="bank"')
    (series,) = kept["series"]
    listed = rows(reader, f"run?id={SCORING_RUN}", "credit.scores")
    assert [int(r["rows"]) for r in listed] == series["counts"]
    assert sum(series["counts"]) == series["rows"]
    assert text.count('aria-label="Distribution of scores') == 1
    assert "Distribution of scores. held-out rows: " in reader.page(VERSION)


def test_a_version_in_production_beside_its_training(reader: Reader, shown: Workspace) -> None:
    shown.scoring().all()
    assert "In production" in reader.page(VERSION)
    known = in_production(shown)
    text = reader.page(VERSION)
    said = plain(text)
    assert "Production has moved away from training: " in said
    assert 'aria-label="Population stability index of scores and own columns. ' in text
    assert 'aria-label="Mean age of other parties&#39; values. ' in text
    assert 'aria-label="Calibration on outcomes. ' in text
    listed = {row["of"]: row for row in rows(reader, VERSION, "credit.live")}
    assert {"score", "amount", "age", "employment"} <= set(listed)
    assert listed["amount"]["result"] == "moved far"
    assert {row["party"] for row in rows(reader, VERSION, "credit.partners")} == {"bank", "shop"}
    found = {row["metric"]: row for row in rows(reader, VERSION, "credit.outcomes")}
    assert float(found["auc"]["on outcomes"]) == pytest.approx(known.metrics["auc"].value)
    (version,) = (v for v in reader.standing()["versions"] if v["champion"])
    assert version["outcomes"]["joined"] == known.joined
    assert {c["name"]: c["move"] for c in version["live"]["columns"]}["amount"] == "far"
    # A damaged part spares the rest of the page.
    home = shown.folder / "credit" / "home" / "credit_scoring"
    (home / "outcomes" / f"{FIRST_RUN}.json").write_text("{")
    text = reader.page(VERSION)
    assert "This part cannot be read" in text and 'aria-label="ROC: ' in text
    assert reader.standing()


def test_a_champion_that_did_not_reach_mlflow_is_a_note_on_its_pages(
    reader: Reader, shown: Workspace
) -> None:
    def asks(data: dict[str, Any]) -> None:
        data["tables"]["credit_scoring"]["models_to"] = {"at": "env:NOWHERE"}

    shown.edit_yaml("credit/site.yaml", asks)
    api.models(shown.file).promote(FIRST_RUN)
    for page in ("models", f"run?id={FIRST_RUN}"):
        assert "The champion is not in MLflow" in plain(reader.page(page))

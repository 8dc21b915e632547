"""What is scored counts as production: by bins and days, at home, and never a row."""

import json
import os
from pathlib import Path

import polars as pl
import pytest
from starlette.testclient import TestClient

from opboost_ops import api
from opboost_ops.extras.serving.app import make_app
from opboost_ops.quality.live import Live
from tests.commands import printed
from tests.federation import FIRST_RUN, Workspace
from tests.integration.extras.serving.served import known_row, new_rows, scorer_of
from tests.integration.pipeline.scoring_data import NAME, score_files

TOKEN = "0123456789abcdef" * 4


def recorder(workspace: Workspace) -> api.Scorer:
    return api.Scorer(workspace.folder / "a", workspace.folder, record=True)


def live(workspace: Workspace) -> Live:
    found = scorer_of(workspace).live()
    assert found is not None
    return found


def day(workspace: Workspace) -> Path:
    folder = workspace.folder / "a" / "home" / NAME / "distributions" / FIRST_RUN
    (path,) = folder.glob("served-*.json")
    return path


def test_a_batch_and_single_rows_count_in_the_bins_of_training(served: Workspace) -> None:
    batch = pl.read_parquet(score_files(served)[0]).height
    before = live(served)
    assert (before.version, before.rows, before.served) == (FIRST_RUN, batch, 0)
    # They are people of the training table: nothing has moved.
    assert before.scores is not None and before.moved == ()
    assert {column.name for column in before.columns} == {"x", "kind"}
    scorer = recorder(served)
    frame = scorer.score_frame(new_rows(served))
    for row in new_rows(served).head(12).to_dicts():
        scorer.score(row)
    scorer.refresh()
    scored = int((frame["refused"] == "").sum()) + int((frame["refused"].head(12) == "").sum())
    after = live(served)
    assert (after.rows, after.served) == (batch + scored, scored)
    assert after.refused == frame.height + 12 - scored and after.moved == ()
    ages = {one.party: one for one in after.partners}
    assert set(ages) == {"b0", "b1"}
    assert ages["b0"].rows == frame.height + 12 and set(ages["b0"].states) == {"current", "unknown"}
    assert ages["b0"].mean_days is not None and ages["b0"].mean_days < 1


def test_what_moves_is_named_and_no_row_is_kept(served: Workspace) -> None:
    rows = new_rows(served).with_columns(x=pl.col("x") * 0.01 + 0.987654321)
    scorer = recorder(served)
    with TestClient(make_app(scorer, TOKEN)) as client:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        for at in range(4):
            sent = {"rows": rows.to_dicts(), "reasons": at % 2}
            assert client.post("/score", json=sent, headers=headers).status_code == 200
        scorer.refresh()
        text = client.get("/metrics", headers=headers).text
    moved = {shift.name: shift.move for shift in live(served).moved}
    assert moved["x"] == "far" and "kind" not in moved
    named = 'opboost_live_index{of="column",name="x"} '
    (index,) = (float(x.removeprefix(named)) for x in text.splitlines() if x.startswith(named))
    assert index > 0.25 and 'opboost_live_index_by_chance{of="column",name="x"} ' in text
    assert 'opboost_live_partner_age_days{party="b0"}' in text
    kept = day(served).read_text()
    for row in rows.to_dicts():
        assert row["id"] not in kept and str(row["x"]) not in kept


def test_processes_add_to_one_record_a_day(served: Workspace) -> None:
    row = known_row(served)
    for scorer in (recorder(served), recorder(served)):
        scorer.score_rows([row] * 7)
        scorer.refresh()
    assert live(served).served == 14
    assert all(path.stat().st_mode & 0o077 == 0 for path in day(served).parent.iterdir())


def test_fewer_than_ten_rows_have_no_figures(served: Workspace) -> None:
    for path in (served.folder / "a" / "home" / NAME / "distributions").glob("*/*.json"):
        # Older than the window.
        os.utime(path, (0, 0))
    assert scorer_of(served).live() is None
    scorer = recorder(served)
    scorer.score_rows([known_row(served)] * 9)
    scorer.refresh()
    found = live(served)
    assert (found.rows, found.scores, found.columns) == (9, None, ())
    assert [one.mean_days for one in found.partners] == [None, None]
    assert {share for one in found.partners for share in one.states.values()} == {None}


def test_scoring_goes_on_where_counts_cannot_be_kept(
    served: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    row, scorer = known_row(served), recorder(served)
    scorer.score(row)
    scorer.refresh()
    path = day(served)
    whole = path.read_bytes()
    path.write_text("{")
    for _ in range(3):
        assert scorer.score(row).score is not None
        scorer.refresh()
    said = [r for r in caplog.records if "cannot be counted" in r.getMessage()]
    assert len(said) == 1 and row["id"] not in caplog.text
    path.write_bytes(whole)
    scorer.refresh()
    assert live(served).served == 4


def test_a_forgotten_person_counts_as_refused_and_for_nothing_else(served: Workspace) -> None:
    row = known_row(served)
    scorer = recorder(served)
    printed("forget", served.folder / "a", row["id"])
    scorer.score_rows([row] * 30)
    scorer.refresh()
    counts = json.loads(day(served).read_bytes())["live"]
    assert (counts["rows"], counts["refused"]) == (0, 30)
    assert {sum(of) for of in counts["columns"].values()} == {0}
    assert {sum(of["states"].values()) for of in counts["partners"].values()} == {0}

"""One row, scored by the label holder alone, gets the score of the batch; nothing else happens."""

import datetime
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from opboost_ops import api
from opboost_ops.errors import ConfigError, ContractError, OpBoostError, PolicyError
from opboost_ops.extras.serving.rows import frame_of
from tests.commands import printed
from tests.federation import FIRST_RUN, SECOND_RUN, Workspace
from tests.integration.extras.serving.served import known_row, new_rows, rules, scorer_of
from tests.integration.pipeline.scoring_data import NAME, dataset, score_files

LATER_RUN = "0" * 15 + "b"


def test_every_row_gets_the_score_of_the_batch_and_no_file_changes(served: Workspace) -> None:
    rows = new_rows(served)
    before = served.files()
    scorer = scorer_of(served)
    frame = scorer.score_frame(rows)
    each = scorer.score_rows(row for row in rows.head(20).to_dicts())
    assert scorer.score_frame(rows.head(0)).columns == frame.columns
    of_pandas = scorer.score_frame(rows.to_pandas())  # type: ignore[arg-type]
    assert of_pandas["score"].equals(frame["score"])
    (path,) = score_files(served)
    batch = pl.read_parquet(path)
    found = batch.select("id").join(frame, on="id", how="left", maintain_order="left")
    assert found.select(batch.columns).equals(batch)
    assert [one.score for one in each] == frame["score"].head(20).to_list()
    assert [one.decision for one in each] == frame["class"].head(20).to_list()
    assert {one.version for one in each} == {FIRST_RUN}
    # Somebody whom a party lacks has no score: nothing is declared to stand for the values.
    others = frame.join(batch, on="id", how="anti")
    assert others.height > 20 and set(others["state_b0"]) == set(others["state_b1"]) == {"unknown"}
    assert set(others["refused"]) == {"unknown"} and others["score"].null_count() == others.height
    assert set(found["state_b0"]) == {"current"} and found["age_days_b0"].max() < 1  # type: ignore[operator]
    assert served.files() == before


def test_a_promotion_and_a_rollback_are_followed(served: Workspace) -> None:
    scorer, row = scorer_of(served), known_row(served)
    first = scorer.score(row)
    models = api.models(served.folder)
    models.promote(SECOND_RUN)
    second = scorer.score(row)
    # The values that the first version's run left are of the same columns and maps.
    assert second.version == SECOND_RUN and second.partners["b0"].state == "current"
    assert second.score != first.score
    models.rollback()
    assert scorer.score(row).score == first.score


@pytest.mark.parametrize(
    ("serve", "score", "refused", "used"),
    [
        ({"max_age_days": 30}, True, "", True),
        ({"max_age_days": 1e-9, "old": "flag"}, True, "", True),
        # Nothing is declared to stand for b1's values.
        ({"max_age_days": 1e-9, "old": "missing"}, False, "old", False),
        ({"max_age_days": 1e-9, "old": "refuse"}, False, "old", False),
    ],
)
def test_old_values_are_flagged_left_out_or_refused(
    served: Workspace, serve: dict[str, Any], score: bool, refused: str, used: bool
) -> None:
    row = known_row(served)
    fresh = scorer_of(served).score(row).score
    rules(served, **serve)
    found = scorer_of(served).score(row)
    partner = found.partners["b1"]
    assert partner.state == ("current" if serve["max_age_days"] == 30 else "old")
    assert partner.age_days is not None and partner.used is used
    assert (found.score is not None, found.refused) == (score, refused)
    assert (found.score == fresh) is used


@pytest.mark.slow
def test_a_declared_fill_stands_for_what_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fills = {"w": 0.5, "size": "medium", "v": 2, "colour": "red"}
    data = dataset("binary")
    for party in ("b0", "b1"):
        for name, declared in data.features[party].items():
            declared["missing"] = {"fill": fills[name]}
    data.features["a"]["kind"]["categories"] = ["one", "two", "three"]
    workspace = Workspace.write(
        tmp_path / "federation",
        data,
        training={"trees": 3, "depth": 2},
        scoring={"mode": "desensitised"},
    )
    workspace.known_to(monkeypatch)
    workspace.all()
    frame = scorer_of(workspace).score_frame(new_rows(workspace))
    assert set(frame["state_b0"]) == {"unknown"} and set(frame["refused"]) == {""}
    assert frame["score"].null_count() == 0
    row = new_rows(workspace).to_dicts()[0]
    with pytest.raises(ContractError, match="kind has a category that is not declared") as refused:
        scorer_of(workspace).score(row | {"kind": "ninth"})
    assert "ninth" not in str(refused.value)
    # The fill stands for a party that has left, too, where the policy says so.
    workspace.edit_yaml("federation.yaml", lambda data: data["parties"].pop("b1"), agree=False)
    printed("agree", workspace.folder / "a", workspace.file, "--yes")
    rules(workspace, withdrawn="missing")
    found = scorer_of(workspace).score(row)
    partner = found.partners["b1"]
    assert (partner.state, partner.used, found.refused) == ("withdrawn", False, "")
    assert found.score == frame["score"][0]


def test_values_of_a_party_that_answers_no_more_grow_old(served: Workspace) -> None:
    row = known_row(served)
    fresh = scorer_of(served).score(row).score
    printed("agree", served.folder / "b1", "--withdraw", "1")
    with pytest.raises(OpBoostError):
        served.scoring(LATER_RUN).all()
    found = scorer_of(served).score(row)
    assert found.score == fresh and found.partners["b1"].state == "current"
    rules(served, max_age_days=1e-9, old="refuse")
    assert scorer_of(served).score(row).refused == "old"


@pytest.mark.slow
def test_somebody_whom_a_party_no_longer_releases_is_not_served_from_an_older_run(
    served: Workspace,
) -> None:
    row, scorer = known_row(served), scorer_of(served)
    assert scorer.score(row).partners["b0"].used
    for name in ("train", "score"):
        path = served.folder / "b0" / "tables" / f"{name}.parquet"
        pl.read_parquet(path).filter(pl.col("id") != row["id"]).write_parquet(path)
    served.scoring(LATER_RUN).all()
    found = scorer.score(row)
    assert {one.state for one in found.partners.values()} == {"unknown"}
    rules(served, unknown="refuse")
    assert scorer.score(row).refused == "unknown"
    # With another key it can no longer be told whom the later run asked about.
    os.remove(served.folder / "a" / "keys" / "alignment.key")
    assert {one.state for one in scorer_of(served).score(row).partners.values()} == {"unknown"}


def test_a_forgotten_person_has_no_score(served: Workspace) -> None:
    row, scorer = known_row(served), scorer_of(served)
    printed("forget", served.folder / "a", row["id"])
    found = scorer.score(row)
    assert (found.score, found.decision, found.refused) == (None, None, "forgotten")
    assert found.probabilities == {}
    assert {(one.state, one.age_days) for one in found.partners.values()} == {("unknown", None)}
    frame = scorer.score_frame(new_rows(served))
    gone = frame.filter(refused="forgotten")
    assert gone["id"].to_list() == [row["id"]] and gone["score"].null_count() == 1


def test_who_has_stopped_or_agreed_to_nothing_scores_nobody(served: Workspace) -> None:
    row, scorer = known_row(served), scorer_of(served)
    printed("stop", served.folder / "a", NAME, "--because", "an audit")
    with pytest.raises(PolicyError, match="stopped"):
        scorer.score(row)
    printed("resume", served.folder / "a", NAME, "--because", "it is over")
    assert scorer.score(row).score is not None
    printed("agree", served.folder / "a", "--withdraw", "1")
    with pytest.raises(PolicyError, match="no agreement"):
        scorer.score(row)


def test_a_party_that_has_left_is_treated_as_the_policy_says(served: Workspace) -> None:
    row, scorer = known_row(served), scorer_of(served)
    fresh = scorer.score_frame(new_rows(served))["score"]
    served.edit_yaml("federation.yaml", lambda data: data["parties"].pop("b1"), agree=False)
    printed("agree", served.folder / "a", served.file, "--yes")
    with pytest.raises(ContractError, match="b1 has left"):
        scorer.score(row)
    rules(served, withdrawn="last")
    assert scorer.score_frame(new_rows(served))["score"].equals(fresh)
    rules(served, withdrawn="missing")
    found = scorer.score(row)
    assert found.partners["b1"].state == "withdrawn" and found.partners["b0"].used
    assert (found.score, found.refused) == (None, "withdrawn")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"x": "0.5"}, "x has a value that is not a number"),
        ({"x": None}, "x has no value"),
        ({"x": float("nan")}, "x has no value"),
        ({"x": float("inf")}, "x has an infinite value"),
        ({"id": "\ud800"}, "id has a value that is not a string"),
        ({"x": [1]}, "x has a value that is not a number"),
        ({"id": 17}, "id has a value that is not a string"),
        ({"id": None}, "id has no ID"),
        ({"kind": {"a": 1}}, "kind has values of several types"),
    ],
)
def test_what_a_table_may_not_hold_a_row_may_not_either(
    served: Workspace, change: dict[str, Any], said: str
) -> None:
    scorer, row = scorer_of(served), known_row(served)
    with pytest.raises(ContractError, match=said) as refused:
        scorer.score(row | change)
    assert "0.5" not in str(refused.value) and "17" not in str(refused.value)
    with pytest.raises(ContractError, match="no column x"):
        scorer.score({"id": row["id"], "kind": "one"})


@pytest.mark.parametrize(
    ("name", "scalars"),
    [
        ("x", [0.5, np.float64(0.5), np.float32(0.5), np.float16(0.5), Decimal("0.5")]),
        ("x", [1, np.int8(1), np.uint64(1), np.bool_(True), True, 1.0]),
        ("kind", ["one", np.str_("one"), pd.Series(["one"], dtype="category")[0]]),
        ("kind", [None, pd.NA, pd.NaT, np.nan, np.float32("nan"), Decimal("nan"), ""]),
        ("kind", ["3", 3, np.int64(3), 3.0, np.float32(3), Decimal("3.0")]),
        ("id", ["p00007", np.str_("p00007")]),
    ],
)
def test_scalars_of_numpy_and_pandas_are_what_they_say(
    served: Workspace, name: str, scalars: list[Any]
) -> None:
    scorer, row = scorer_of(served), known_row(served)
    answers = [scorer.score(row | {name: scalar}) for scalar in scalars]
    first, *others = [(one.score, one.unseen, one.partners.keys()) for one in answers]
    assert all(other == first for other in others)


def test_moments_of_numpy_and_pandas_are_dates(served: Workspace) -> None:
    federation = served.declared
    features = federation.parties["a"].features
    features["x"] = features["x"].model_copy(update={"unit": "days"})
    day = datetime.datetime(2024, 3, 1)
    scalars = [day, pd.Timestamp(day), np.datetime64("2024-03-01"), np.datetime64(day, "ns")]
    for scalar in scalars:
        frame = frame_of([{"id": "p", "x": scalar}, {"id": "q", "x": pd.NaT}], federation, ["x"])
        assert frame["x"].to_list() == [day, None]


def test_a_category_that_no_training_row_had_counts_as_missing(served: Workspace) -> None:
    scorer, row = scorer_of(served), known_row(served)
    found = scorer.score(row | {"kind": "ninth", "age": datetime.date(2020, 1, 1)})
    assert found.unseen == ("kind",)
    assert found.score == scorer.score(row | {"kind": None}).score


def test_only_the_label_holder_scores(served: Workspace) -> None:
    with pytest.raises(ConfigError, match="not the label holder"):
        api.Scorer(served.folder / "b0", served.folder)
    os.remove(served.folder / "a" / "models" / NAME / "champion.json")
    with pytest.raises(ContractError, match="no champion"):
        scorer_of(served)

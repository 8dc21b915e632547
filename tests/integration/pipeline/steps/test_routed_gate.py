"""With routed scoring the champion is compared on the same rows, by comparisons asked for it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from opboost_ops.learning import metrics
from opboost_ops.learning.boosters.lightgbm_text import TextModel
from tests.federation import FIRST_RUN, SECOND_RUN, Workspace
from tests.integration.pipeline.scoring_data import HOLDERS, dataset, held_out, on_clear_values

OTHER = "0" * 15 + "9"


@pytest.fixture(scope="module")
def routed_once(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A good champion, trained and evaluated with routed scoring; nothing is encrypted."""
    workspace = Workspace.write(
        tmp_path_factory.mktemp("routed") / "federation",
        dataset("regression"),
        training={"trees": 10, "depth": 3},
        scoring={"mode": "routed"},
    )
    workspace.plain()
    workspace.all()
    return workspace


@pytest.fixture
def routed(routed_once: Workspace, tmp_path: Path) -> Workspace:
    """It is about to train a much worse model: one stump."""
    copy = routed_once.copy(tmp_path / "federation", SECOND_RUN)
    copy.declare("federation.yaml", training={"trees": 1, "depth": 1})
    return copy


def thresholds(workspace: Workspace, version: str) -> dict[str, set[float]]:
    text = workspace.registry.files(version)["model.txt"].decode()
    return {name: set(found) for name, found in TextModel.parse(text).integer_comparisons().items()}


def r2(workspace: Workspace, version: str) -> float:
    """Of a version on clear domain values of the present run's held-out rows."""
    people = held_out(workspace)
    prediction = on_clear_values(workspace, people, version)
    return metrics.evaluate("regression", people["y"].to_numpy(), prediction)["r2"]


def test_a_worse_model_is_compared_on_the_same_rows_and_kept_aside(
    routed: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING", logger="opboost_ops"):
        summaries = routed.all()
    assert "was not promoted" in caplog.text
    assert summaries["a.register"]["champion"] is False
    assert "shown to be worse" in summaries["a.register"]["why"]
    gate = routed.home_json("a", "gate")
    assert (gate["promote"], gate["version"]) == (False, FIRST_RUN)
    assert "shown to be worse" in gate["why"]
    assert gate["gain"]["value"] == gate["new"] - gate["value"]
    assert gate["gain"]["high"] < -gate["tolerance"]
    assert "on the same rows" in gate["why"]
    assert gate["value"] == r2(routed, FIRST_RUN)
    assert gate["new"] == r2(routed, SECOND_RUN)
    assert gate["new"] < gate["value"] - gate["tolerance"]
    # All comparisons of both models were asked for, and no others.
    old, new = thresholds(routed, FIRST_RUN), thresholds(routed, SECOND_RUN)
    assert old != new
    for party in HOLDERS:
        asked = routed.artifact("route_request", party).document["thresholds"]
        both = {
            name.removeprefix(f"{party}."): sorted(old.get(name, set()) | new.get(name, set()))
            for name in old | new
            if name.startswith(f"{party}.")
        }
        assert asked == both
    kept = routed.registry
    assert (kept.champion(), kept.history()[-1].event) == (FIRST_RUN, "kept")
    assert SECOND_RUN in kept.versions()
    # Deciding again changes nothing.
    routed.step("a", "register")
    assert len(kept.history()) == 2
    announced = summaries["a.announce_champion"]
    assert announced["champion"] is False
    assert "rejected" in announced["skip"]


def test_what_a_person_approves_during_the_run_waits_for_the_next_one(routed: Workspace) -> None:
    routed.until("evaluate")
    files = routed.registry.files(FIRST_RUN)
    del files["sha256.json"]
    routed.registry.register(OTHER, files)
    routed.registry.promote(OTHER, "by hand")
    routed.step("a", "evaluate")
    gate = routed.home_json("a", "gate")
    assert (gate["version"], gate["promote"]) == (FIRST_RUN, False)
    assert "on the same rows" in gate["why"]


def test_a_plan_names_two_versions_at_most_and_one_is_compared_with(routed: Workspace) -> None:
    """A champion that is not the reference is not asked for: thresholds are a disclosure."""
    files = routed.registry.files(FIRST_RUN)
    del files["sha256.json"]
    worse = json.loads(files["evaluation.json"])
    worse["metrics"]["federated_routed"]["r2"] -= 0.1
    routed.registry.register(OTHER, {**files, "evaluation.json": json.dumps(worse).encode()})
    routed.registry.decide(OTHER, True, "not shown to be worse")
    routed.until("answer_routes")
    plan = routed.artifact("plan", "a").document
    assert (plan["model"], plan["reference"]) == (OTHER, FIRST_RUN)


def test_a_run_that_is_cleared_asks_for_the_champion_with_which_it_began(
    routed: Workspace,
) -> None:
    routed.until("answer_routes")
    before = routed.files("exchange")
    files = routed.registry.files(FIRST_RUN)
    del files["sha256.json"]
    routed.registry.register(OTHER, files)
    routed.registry.promote(OTHER, "by hand")
    routed.open()
    routed.step("a", "request_routes")
    assert routed.files("exchange") == before


def test_a_model_that_splits_on_no_column_of_a_feature_holder_is_evaluated(tmp_path: Path) -> None:
    workspace = Workspace.write(
        tmp_path / "stump",
        dataset("regression"),
        training={"trees": 1, "depth": 1},
        scoring={"mode": "routed"},
    )
    workspace.all()
    asked = [workspace.artifact("route_request", p).document["thresholds"] for p in HOLDERS]
    assert {} in asked
    assert workspace.home_json("a", "evaluation")["metrics"].keys() > {"federated_routed"}


def begin_routing(workspace: Workspace) -> None:
    """Change the declared mode, and all policies, of a federation that was desensitised."""

    def allow(policy: Any) -> None:
        policy["scoring"] = ["desensitised", "routed"]
        for rule in policy["features"].values():
            rule["routed"] = "once"

    workspace.declare("federation.yaml", scoring={"mode": "routed"})
    for party in workspace.declared.feature_holders:
        workspace.edit_yaml(f"{party}/policy.yaml", allow)


def test_a_champion_never_evaluated_in_the_mode_is_evaluated_in_it_now(tmp_path: Path) -> None:
    first = Workspace.write(
        tmp_path / "first", dataset("regression"), training={"trees": 10, "depth": 3}
    )
    first.all()
    workspace = Workspace(first.folder, SECOND_RUN)
    begin_routing(workspace)
    workspace.all()
    gate = workspace.home_json("a", "gate")
    evaluation = workspace.registry.files(FIRST_RUN)["evaluation.json"]
    assert set(json.loads(evaluation)["metrics"]) == {
        "label_holder_alone",
        "federated_desensitised",
    }
    # Rows are held out one by one in this mode: both versions are judged on these rows.
    assert gate["value"] == r2(workspace, FIRST_RUN)
    assert gate["new"] == r2(workspace, SECOND_RUN)
    assert gate["version"] == FIRST_RUN
    assert "in mode routed against" in gate["why"]
    assert "on the same rows" in gate["why"]


def test_a_champion_of_other_columns_never_evaluated_in_the_mode_is_left_to_people(
    workspace: Workspace,
) -> None:
    begin_routing(workspace)

    def widen(data: Any) -> None:
        data["parties"]["bank"]["features"]["debt_ratio"]["bounds"] = [0, 2]

    workspace.edit_yaml("federation.yaml", widen)
    summaries = workspace.all()
    gate = workspace.home_json("credit", "gate")
    assert gate["promote"] is False
    assert "never evaluated in mode routed" in gate["why"]
    assert "promote one by hand" in gate["why"]
    assert summaries["credit.register"]["champion"] is False
    kept = workspace.registry
    assert (kept.champion(), kept.history()[-1].event) == (FIRST_RUN, "kept")


def test_a_home_that_was_lost_does_not_change_the_answers(routed: Workspace) -> None:
    """Routes hold no noise: a feature holder that starts over publishes the very same ones."""
    routed.until("evaluate")
    before = routed.files("exchange")
    shutil.rmtree(routed.home("b1"))
    for step in routed.steps():
        if step.party == "b1":
            routed.step(step.party, step.stage)
    assert routed.files("exchange") == before

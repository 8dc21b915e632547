"""Which runs a party joins, and what it takes from another Airflow's word: nothing."""

import os
import time
from pathlib import Path

import pytest

from opboost_ops.errors import ArtifactError, ConfigError, PolicyError
from opboost_ops.exchange.audit import Action
from opboost_ops.exchange.manifest import JOINED, run_id
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.pipeline.party import invitations
from opboost_ops.pipeline.party.agreement import withdraw
from opboost_ops.pipeline.party.inbox import Run
from opboost_ops.pipeline.party.recovery import recover
from tests.federation import FIRST_RUN, SCORING_RUN, SECOND_RUN, Workspace
from tests.party_state import state_of

NAME = "credit_scoring"
HOUR = 3600.0
THIRD_RUN = "0" * 15 + "3"


def offered(party: str = "bank") -> list[str]:
    return [opened.run for opened in invitations.to_join(party, NAME, "credit", HOUR)]


def opened(workspace: Workspace, run: str, age: float) -> Workspace:
    """A run that was opened so many seconds ago."""
    other = Workspace(workspace.folder, run, workspace.purpose)
    other.open()
    aged(other, age)
    return other


def aged(workspace: Workspace, age: float) -> None:
    plan = workspace.folder / "exchange" / NAME / workspace.run / "plan" / "credit"
    os.utime(plan / "manifest.json", (time.time() - age,) * 2)


def noted(workspace: Workspace, action: Action) -> list[str]:
    """Places of the bank's audit entries of an action."""
    with state_of(workspace, "bank") as state:
        return [entry.place for entry in state.audit.of(action)]


@pytest.fixture(autouse=True)
def _first(workspace: Workspace) -> None:
    """The first run is one that all have taken part in, in another topology."""
    aged(Workspace(workspace.folder, FIRST_RUN), 2 * HOUR)


def join(run: str, purpose: str = "train", party: str = "bank") -> dict[str, object]:
    return invitations.join(party, Run(NAME, run, "credit"), purpose)  # type: ignore[arg-type]


def test_the_newest_young_run_is_joined_once(workspace: Workspace) -> None:
    assert workspace.store.runs(NAME) == [FIRST_RUN]
    assert offered() == []
    opened(workspace, THIRD_RUN, 60)
    assert offered() == offered("shop") == [THIRD_RUN]
    opened(workspace, SECOND_RUN, 30)
    assert offered() == [SECOND_RUN]
    assert join(SECOND_RUN)["run"] == SECOND_RUN
    # The older one is over, though nobody here had a part in it.
    assert offered() == []
    assert offered("shop") == [SECOND_RUN]


def test_what_is_too_old_is_not_joined(workspace: Workspace) -> None:
    opened(workspace, SECOND_RUN, HOUR + 1)
    assert offered() == []
    opened(workspace, THIRD_RUN, HOUR - 60)
    assert offered() == [THIRD_RUN]


def test_training_and_scoring_are_joined_side_by_side(workspace: Workspace) -> None:
    opened(workspace.scoring(), SCORING_RUN, 20)
    opened(workspace, SECOND_RUN, 30)
    assert offered() == [SECOND_RUN, SCORING_RUN]
    with pytest.raises(ConfigError, match="is a score run"):
        join(SCORING_RUN)
    join(SCORING_RUN, "score")
    assert offered() == [SECOND_RUN]


def test_a_plan_of_another_key_is_refused_and_does_not_hide_a_good_one(
    workspace: Workspace,
) -> None:
    good = opened(workspace, SECOND_RUN, 60)
    opened(workspace, THIRD_RUN, 30)
    bad = Workspace(workspace.folder, THIRD_RUN)
    bad.forge("plan", "credit", "shop", document={"federation": {}})
    assert offered() == [good.run]
    with pytest.raises(Rejected):
        join(THIRD_RUN)
    assert any(THIRD_RUN in place for place in noted(workspace, "rejected"))
    join(good.run)
    with pytest.raises(Rejected):
        offered()


def test_a_run_that_nobody_opened_is_not_joined(workspace: Workspace) -> None:
    with pytest.raises(ArtifactError):
        join(THIRD_RUN)
    assert not (workspace.site("bank").home / NAME / THIRD_RUN).exists()


def test_joining_again_changes_nothing_and_is_in_the_audit_log_once(workspace: Workspace) -> None:
    opened(workspace, SECOND_RUN, 0)
    assert join(SECOND_RUN) == join(SECOND_RUN)
    assert noted(workspace, "received").count(f"{NAME}/{SECOND_RUN}/plan/credit") == 1


def test_who_waits_in_a_run_that_is_over_is_told_of_the_next_one(workspace: Workspace) -> None:
    over = opened(workspace, SECOND_RUN, 60)
    run = Run(NAME, over.run, "credit")
    join(over.run)
    assert invitations.missing("bank", run, ["alignment/bank", "plan/credit"]) == ["alignment/bank"]
    assert invitations.newer("bank", run, "train", HOUR) is None
    opened(workspace.scoring(), SCORING_RUN, 10)
    assert invitations.newer("bank", run, "train", HOUR) is None
    opened(workspace, THIRD_RUN, 30)
    assert invitations.newer("bank", run, "train", HOUR) == THIRD_RUN
    # Cleared after the next one was joined: on purpose.
    join(THIRD_RUN)
    assert invitations.newer("bank", run, "train", HOUR) is None


def test_airflows_id_of_a_joined_run_names_the_run() -> None:
    assert run_id("a_train", f"{JOINED}{SECOND_RUN}") == SECOND_RUN
    for other in ("manual__x", f"{JOINED}x", f"{JOINED}{SECOND_RUN}0", f"x{JOINED}{SECOND_RUN}"):
        assert run_id("a_train", other) != run_id("b_train", other)
        assert len(run_id("a_train", other)) == 16


def test_no_home_is_needed_beforehand(tmp_path: Path, workspace: Workspace) -> None:
    workspace.declare("bank/site.yaml", home=str(tmp_path / "new"))
    # That the former home is gone is a gap, until the state says so itself.
    recover(workspace.site("bank"), workspace.policy("bank"))
    opened(workspace, SECOND_RUN, 0)
    assert offered() == [SECOND_RUN]
    join(SECOND_RUN)
    assert offered() == []


def test_a_run_to_which_the_party_has_not_agreed_is_not_joined(workspace: Workspace) -> None:
    second = opened(workspace, SECOND_RUN, 30)
    withdraw(workspace.site("bank"), 1)
    for act in (offered, lambda: join(SECOND_RUN)):
        with pytest.raises(PolicyError, match="bank refused run"):
            act()
    assert "the newest one was withdrawn" in second.reason("bank")
    assert offered("shop") == [SECOND_RUN]
    # It is looked for again and again, and told once.
    assert noted(workspace, "rejected") == [f"{NAME}/{SECOND_RUN}/plan"]

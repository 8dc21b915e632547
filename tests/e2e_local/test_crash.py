"""Killed at every point between reservation and commit, then tried again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.federation import Workspace
from tests.party_state import state_of

SCRIPT = Path(__file__).with_name("crash.py")
#: In the fast suite; the slow one has them all.
FAST = ("after pin",)

POINTS = [
    pytest.param(
        stage,
        f"{when} {name}",
        marks=() if f"{when} {name}" in FAST else pytest.mark.slow,
    )
    for stage, names in (
        ("desensitize", ("open", "pin", "take")),
        ("seal", ("reserve", "put", "audit", "commit")),
    )
    for name in names
    for when in ("before", "after")
]


def killed(workspace: Workspace, party: str, stage: str, point: str) -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, party, stage, workspace.run, point],
        env={**os.environ, **workspace.environment()},
        cwd=Path(__file__).parents[2],
        capture_output=True,
    )
    assert done.returncode == -9, done.stderr.decode()


@pytest.fixture
def unspent(workspace: Workspace) -> Workspace:
    """About to open a release: the bank's incomes are declared on wider bounds."""
    lower, upper = workspace.declared.parties["bank"].features["income"].bounds or (0, 0)
    wider = {"income": {"bounds": [lower, upper * 1.1]}}
    workspace.declare("federation.yaml", parties={"bank": {"features": wider}})
    workspace.until("desensitize", "bank")
    return workspace


def spent(workspace: Workspace) -> dict[str, float]:
    with state_of(workspace, "bank") as state:
        return {column: float(loss) for column, loss in state.releases.spent().items()}


@pytest.mark.parametrize(("stage", "point"), POINTS)
def test_what_was_killed_is_completed_by_its_retry(
    unspent: Workspace, stage: str, point: str
) -> None:
    before = spent(unspent)
    stages = ("desensitize", "rank", "check_release", "seal")
    for done in stages[: stages.index(stage)]:
        unspent.step("bank", done)
    killed(unspent, "bank", stage, point)
    assert unspent.store.garbage(0) == []
    for again in stages[stages.index(stage) :]:
        unspent.step("bank", again)
    after = spent(unspent)
    digests = {
        place: unspent.store.get(f"credit_scoring/{unspent.run}/{place}")
        for place in ("ranks/bank", "shares/bank")
    }
    unspent.step("bank", "seal")
    assert spent(unspent) == after
    assert digests == {
        place: unspent.store.get(f"credit_scoring/{unspent.run}/{place}") for place in digests
    }
    # Charged once: the feature that is declared again; the others go on with their releases.
    assert {f for f in after if after[f] > before[f]} == {"income"}
    assert after["income"] == pytest.approx(2 * before["income"])
    with state_of(unspent, "bank") as state:
        assert state.ledger.uncommitted() == []
        state.audit.verify()
    unspent.store.collect(0)
    assert unspent.store.garbage(0) == []
    # The run goes on to its end.
    for rest in stages[1:]:
        unspent.step("shop", rest)
    for party in ("shop", "bank"):
        unspent.step(party, "psi_answer")
    unspent.step("credit", "open_rows")

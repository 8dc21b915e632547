"""Killed at every point between reservation and commit, then tried again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.federation import Workspace
from tests.party_state import releases_of, state_of

SCRIPT = Path(__file__).with_name("crash.py")
#: In the fast suite; the slow one has them all.
FAST = ("before charge", "after reserve", "after put")

POINTS = [
    pytest.param(
        stage,
        f"{when} {name}",
        marks=() if f"{when} {name}" in FAST else pytest.mark.slow,
    )
    for stage, names in (
        ("desensitize", ("draw", "charge")),
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
    """About to take new draws: some of the bank's incomes have changed."""
    workspace.edit_table("bank", lambda t: t.with_columns(t["income"].reverse()))
    workspace.until("desensitize", "bank")
    return workspace


def spent(workspace: Workspace) -> dict[str, float]:
    from opboost_ops.privacy.accountant import accounts

    found = accounts(releases_of(workspace, "bank"))
    return {account.feature: float(account.whole) for account in found.values()}


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
    # Charged once: the changed feature by one release, the others, which are the same draws, not.
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

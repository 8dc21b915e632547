"""The histories of planted faults, on the real code: refused, or without a broken promise."""

from pathlib import Path
from typing import Any

import pytest

from opboost_ops.verifier import verify
from tests.federation import FIRST_RUN, Workspace, small_credit
from tests.model.replay import Replay
from tests.model.test_exchange import FAULTS, counterexample
from tests.verifier.tampering import broken

#: By fault, the steps of its history that the real code refuses.
REFUSED: dict[str, set[str]] = {
    "any_plan": {"query 1 bank 1", "admit bank 1", "count bank 1", "answer bank 1"},
    "second_plan": {"admit bank 1"},
    "any_query": {"count bank 1", "answer bank 1"},
    "no_cap": {"count bank 1"},
    "over_budget": {"renew bank"},
    "retry_chooses_again": {"release bank 1"},
    "overwritten": {"publish bank 1"},
    "any_request": {"splits bank 1"},
    "any_requester": {"splits bank 1"},
    "any_signer": {"accept 1 bank"},
    "rollback_ignored": {"count bank 1", "answer bank 1"},
    "stop_ignored": {"admit bank 1", "count bank 1", "answer bank 1"},
}

#: In the fast suite; the slow one has them all.
FAST = ("retry_chooses_again", "rollback_ignored")

#: What the bank's policy has in a history of one fault.
POLICIES: dict[str, dict[str, Any]] = {
    "no_cap": {"alignment": {"max_new_queries": 3}},
    "over_budget": {"features": {"income": {"budget": 5}}},
}


@pytest.fixture(scope="module")
def federations(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Workspace]:
    """Two parties, and three, before their first run."""
    folder = tmp_path_factory.mktemp("federations")
    training = {"trees": 2, "depth": 2}
    return {
        without: Workspace.write(
            folder / (without or "three"),
            small_credit(rows=120, without=without),
            training=training,
        )
        for without in ("shop", "")
    }


@pytest.mark.parametrize(
    "fault", [pytest.param(f, marks=() if f in FAST else pytest.mark.slow) for f in FAULTS]
)
def test_the_real_code_does_not_have_the_fault(
    fault: str, federations: dict[str, Workspace], tmp_path: Path
) -> None:
    federation = federations["" if "holders" in FAULTS[fault][1] else "shop"]
    workspace = federation.copy(tmp_path / "federation", FIRST_RUN)
    if fault in POLICIES:
        workspace.declare("bank/policy.yaml", **POLICIES[fault])
    replay = Replay(workspace, foreign_query=fault == "any_query")
    refused = set(replay.refused(counterexample(fault)))
    assert refused == REFUSED.get(fault, set())
    if not refused:
        assert broken(verify([workspace.folder / "bank"])) == set()

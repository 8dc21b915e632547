"""A person's approval is of one plan of one federation, and comes before the first answer."""

import pytest
from typer.testing import CliRunner

from opboost_ops.cli import app
from opboost_ops.errors import ApprovalError
from opboost_ops.pipeline.phases import stages_of
from tests.adversary.kit import of_run
from tests.federation import Workspace
from tests.party_state import state_of


@pytest.fixture
def asking(fresh: Workspace) -> Workspace:
    """A federation whose bank approves its first release, and whose first run is open."""
    fresh.edit_yaml("bank/policy.yaml", lambda policy: policy.update(approve="first"))
    fresh.open()
    return fresh


def approve(workspace: Workspace, *words: str) -> tuple[int, str]:
    command = ["approve", str(workspace.folder / "bank"), workspace.run, *words]
    done = CliRunner().invoke(app, command)
    return done.exit_code, done.output + str(done.exception or "")


def test_before_the_approval_nothing_is_answered(asking: Workspace) -> None:
    """Neither a check's result nor who is a customer; also where stages are run out of order."""
    for stage in ("check_table", "check_drift", "digest_ids", "psi_query"):
        asking.step("credit", stage)
    for stage in stages_of(asking.declared, "train", "bank"):
        with pytest.raises(ApprovalError):
            asking.step("bank", stage)
    assert [name for name in asking.published() if name.endswith("/bank")] == ["psi_query/bank"]
    assert of_run(asking, "bank") == [("exact", "approval_asked", "everyone who sees the run")]


def test_a_yes_for_one_federation_is_void_for_another(asking: Workspace) -> None:
    """Another federation's question has the same run id, and comes later."""
    with pytest.raises(ApprovalError):
        asking.step("bank", "check_table")
    with state_of(asking, "bank") as state:
        state.audit.add("asked", f"other/{asking.run}/approval", "bank", "a" * 64, "another one")
    shown = approve(asking)[1]
    assert "of credit_scoring, plan" in shown and "of other, plan aaaaaaaaaaaaaaaa" in shown
    assert "credit (" in shown and "shop (" in shown, "the counterparties are named"
    reason = ("--because", "looked at it")
    assert approve(asking, "--yes", *reason)[0] != 0, "an answer names the plan"
    assert approve(asking, "--yes", "--plan", "a" * 8, *reason)[0] != 0
    assert approve(asking, "--yes", "--plan", "b" * 16, *reason)[0] != 0
    assert approve(asking, "--yes", "--plan", "a" * 16, *reason)[0] == 0
    with pytest.raises(ApprovalError):
        asking.step("bank", "check_table")

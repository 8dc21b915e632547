"""One agreement of a federation is in force: a new one retires what came before it."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from opboost_ops.cli import app
from opboost_ops.errors import ConfigError
from opboost_ops.exchange.party_state import agreements_of
from opboost_ops.pipeline.party.agreement import agree
from tests.adversary.kit import forge_plan, of_run, refusal
from tests.federation import FIRST_RUN, Workspace

NEVER = "f" * 16


def narrowed(data: Any) -> None:
    """What all agree to next: half the epsilon of a column."""
    mechanism = data["parties"]["bank"]["features"]["debt_ratio"]["mechanism"]
    mechanism["epsilon"] = 0.32


@pytest.fixture
def moved_on(workspace: Workspace) -> Workspace:
    """A federation that has a version, and has agreed to something else since."""
    workspace.edit_yaml("federation.yaml", narrowed)
    return workspace.scoring()


def plans_under_the_former(workspace: Workspace, version: str) -> str:
    """The label holder's own software keeps to the former agreement; what the bank says outside."""
    site = workspace.site("credit")
    before = agreements_of(site).of("credit_scoring")[0]
    agree(site, workspace.declared, keep=[FIRST_RUN])
    workspace.open()
    forge_plan(workspace, agreed=before.digest, model=version)
    return refusal(workspace, "bank")


@pytest.mark.parametrize("version", [FIRST_RUN, NEVER])
def test_a_retired_agreement_is_answered_no_more(moved_on: Workspace, version: str) -> None:
    before = of_run(moved_on, "bank")
    said = plans_under_the_former(moved_on, version)
    assert "refused run" in said and version not in said.replace(moved_on.run, "")
    assert "no longer in force" in moved_on.reason("bank")
    assert of_run(moved_on, "bank") == before == []


def test_a_version_that_the_party_keeps_is_scored_under_its_own_agreement(
    moved_on: Workspace,
) -> None:
    command = ["agree", str(moved_on.folder / "bank"), str(moved_on.file), "--yes"]
    done = CliRunner().invoke(app, [*command, "--keep-version", FIRST_RUN])
    assert done.exit_code == 0 and "number 2" in done.output
    for party in ("credit", "shop"):
        agree(moved_on.site(party), moved_on.declared, [FIRST_RUN])
    moved_on.all()
    assert ("local_dp", "values", "credit") in of_run(moved_on, "bank")


def test_a_version_that_it_never_helped_to_train_cannot_be_kept(moved_on: Workspace) -> None:
    site = moved_on.site("bank")
    with pytest.raises(ConfigError, match="no record of a version"):
        agree(site, moved_on.declared, keep=[NEVER])
    assert not agreements_of(site).kept


def test_the_next_agreement_keeps_nothing_by_itself(moved_on: Workspace, tmp_path: Path) -> None:
    site = moved_on.site("bank")
    agree(site, moved_on.declared, keep=[FIRST_RUN])
    assert agreements_of(site).kept_under("credit_scoring", FIRST_RUN) is not None
    moved_on.edit_yaml("federation.yaml", lambda data: data["domain"].update(upper=12))
    assert agreements_of(site).kept_under("credit_scoring", FIRST_RUN) is None


def test_what_an_agreement_retires_is_shown_before_it_is_made(workspace: Workspace) -> None:
    workspace.edit_yaml("federation.yaml", narrowed, agree=False)
    command = ["agree", str(workspace.folder / "bank"), str(workspace.file)]
    done = CliRunner().invoke(app, command, input="n\n")
    assert FIRST_RUN in done.output and "debt_ratio" in done.output

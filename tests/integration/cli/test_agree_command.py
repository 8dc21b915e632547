"""`opboost agree`: what is shown, what is asked, what is pinned."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from opboost_ops.errors import BudgetError, ContractError
from opboost_ops.exchange.party_state import agreements_of as load
from opboost_ops.exchange.party_state import open_state
from opboost_ops.pipeline.party.agreement import MADE_UP
from opboost_ops.pipeline.party.local_party import LocalParty
from opboost_ops.pipeline.runner.preflight import together
from opboost_ops.pipeline.runner.run_releases import require_within
from tests.commands import opboost, printed
from tests.federation import Workspace, small_credit
from tests.integration.cli.conftest import Done


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """Real parties: nobody speaks for them, and nobody has agreed to the change of a fill."""
    made = Workspace.write(tmp_path / "w", small_credit(rows=60), seed=None)
    for path in made.folder.glob(f"*/{MADE_UP}"):
        path.unlink()

    def refill(data: Any) -> None:
        data["parties"]["bank"]["features"]["income"]["missing"] = {"fill": 100}

    made.edit_yaml("federation.yaml", refill, agree=False)
    made.known_to(monkeypatch)
    return made


def agree(workspace: Workspace, *arguments: object, answer: str = "") -> Done:
    return Done(*opboost("agree", workspace.folder / "bank", *arguments, stdin=answer))


def standing(workspace: Workspace) -> list[int]:
    agreements = load(workspace.site("bank"))
    return [made.number for made in agreements.agreements if made.withdrawn is None]


def asked(workspace: Workspace) -> Any:
    return json.loads(agree(workspace, workspace.file, "--json").output)


def test_json_says_what_is_new_and_agrees_to_nothing(workspace: Workspace) -> None:
    said = asked(workspace)
    assert set(said) == {"digest", "changes", "sheet"}
    (change,) = said["changes"]
    assert change["field"] == "federation.parties.bank.features.income.missing.fill"
    assert (change["before"], change["after"]) == (2500.0, 100.0)
    assert "bank releases these columns again, each at its full loss: income" in change["means"]
    assert standing(workspace) == [1]


@pytest.mark.parametrize("form", [["--yes", "{}"], ["--yes={}"]])
def test_yes_with_the_digest_that_was_read(workspace: Workspace, form: list[str]) -> None:
    digest = asked(workspace)["digest"]
    given = [part.format(digest) for part in form]
    assert agree(workspace, workspace.file, *given).output
    assert standing(workspace) == [1, 2]
    assert (asked(workspace)["digest"], asked(workspace)["changes"]) == (digest, [])


def test_yes_with_another_digest(workspace: Workspace) -> None:
    done = agree(workspace, workspace.file, "--yes", "0" * 64)
    assert "is not the digest of federation.yaml" in done.error
    assert standing(workspace) == [1]


def test_a_bare_yes_is_for_made_up_parties_and_throwaway_stores(workspace: Workspace) -> None:
    assert "is not a generated party" in agree(workspace, workspace.file, "--yes").error
    assert standing(workspace) == [1]
    (workspace.folder / "exchange" / ".throwaway").touch()
    assert agree(workspace, workspace.file, "--yes").output
    assert standing(workspace) == [1, 2]


@pytest.mark.parametrize(("answer", "numbers"), [("y\n", [1, 2]), ("n\n", [1]), ("", [1])])
def test_it_asks(workspace: Workspace, answer: str, numbers: list[int]) -> None:
    done = agree(workspace, workspace.file, answer=answer)
    assert (done.code == 0) is (numbers == [1, 2])
    assert standing(workspace) == numbers
    words = " ".join(done.out.split())
    assert "What bank agrees to in credit_scoring" in words
    assert "income.missing.fill: 2500.0 -> 100.0" in words


def test_withdrawing(workspace: Workspace) -> None:
    said = agree(workspace, "--withdraw", "1").output
    assert "agreement 1 with credit_scoring is withdrawn" in said
    assert standing(workspace) == []
    assert "no agreement 1" in agree(workspace, "--withdraw", "1").error


def test_without_a_federation_it_lists(workspace: Workspace) -> None:
    said = agree(workspace).output
    assert "1  credit_scoring" in said and "in force" in said


def test_check_and_run_name_who_has_not_agreed_and_the_command(workspace: Workspace) -> None:
    for command in ("check", "run"):
        text = Done(*opboost(command, workspace.file)).error
        for party in ("credit", "shop", "bank"):
            assert f"`opboost agree {workspace.folder / party} {workspace.file}`" in text
        # The caller learns that it is another one, and not in what.
        assert ("missing.fill" in text) is (command == "check")
    assert workspace.store.list("credit_scoring") == []
    for party in ("credit", "shop", "bank"):
        digest = asked(workspace)["digest"]
        printed("agree", workspace.folder / party, workspace.file, "--yes", digest)
    assert "agreements: OK." in printed("check", workspace.file)


def test_check_sees_the_budget_and_the_caps_that_would_refuse_a_run(workspace: Workspace) -> None:
    for party in ("credit", "shop", "bank"):
        digest = asked(workspace)["digest"]
        printed("agree", workspace.folder / party, workspace.file, "--yes", digest)

    def tighten(policy: Any) -> None:
        policy["all_features"] = {"budget": 0.25}
        policy["alignment"]["max_new_queries"] = 7

    workspace.edit_yaml("bank/policy.yaml", tighten, agree=False)
    text = " ".join(Done(*opboost("check", workspace.file)).error.split())
    assert "would exceed the privacy budget of bank: all_features.budget is 0.25" in text
    assert "bank/policy.yaml:alignment.max_new_queries: is 7, and credit queries the" in text
    with pytest.raises(BudgetError) as caught, open_state(workspace.site("bank")) as state:
        bank = LocalParty("bank", workspace.site("bank"), workspace.policy("bank"), workspace.store)
        require_within(state, bank, workspace.declared, "", "train", date(2026, 11, 1))
    both = together([caught.value, ContractError("Other.")], "run 1")
    assert isinstance(both, BudgetError) and "0.25" not in both.public

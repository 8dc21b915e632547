"""A party's runs use one store: another one, or an empty folder in its place, is refused."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from opboost_ops.errors import ConfigError, OpBoostError
from opboost_ops.exchange.store.places import IDENTITY, identity_from
from tests.commands import opboost, printed
from tests.federation import Workspace
from tests.party_state import entries_of, state_of


def ledger(command: str, workspace: Workspace, party: str, *more: str, fails: bool = False) -> str:
    return printed("ledger", command, workspace.folder / party, *more, fails=fails)


def pins(workspace: Workspace, party: str) -> dict[str, str]:
    with state_of(workspace, party) as state:
        return {name: pin.identity for name, pin in state.stores.pins().items()}


def unmount(workspace: Workspace) -> Path:
    """Move the exchange away; an empty folder is left, as where a share was mounted."""
    exchange, away = workspace.folder / "exchange", workspace.folder / "away"
    exchange.rename(away)
    exchange.mkdir()
    return away


def move_to_other(workspace: Workspace, party: str) -> Path:
    """Let one party's site name an empty folder of its own."""
    own = workspace.folder / party / "own"
    own.mkdir()
    workspace.declare(f"{party}/site.yaml", store=str(own))
    return own


def test_the_first_run_gives_a_store_its_identity_and_every_party_pins_it(
    trained_once: Workspace,
) -> None:
    identity = trained_once.store.identity()
    assert identity is not None
    for party in trained_once.declared.parties:
        assert pins(trained_once, party) == {"credit_scoring": identity}
    assert IDENTITY not in "".join(trained_once.store.list(""))


def test_a_run_begins_no_store_in_the_place_of_one_that_is_not_mounted(
    workspace: Workspace,
) -> None:
    before = {party: entries_of(workspace, party) for party in workspace.declared.parties}
    away = unmount(workspace)
    with pytest.raises(ConfigError, match="is not the one that its runs") as error:
        workspace.open()
    assert "mounted" in error.value.remedy
    assert "ledger recover" in error.value.remedy
    assert list((workspace.folder / "exchange").iterdir()) == []
    assert {party: entries_of(workspace, party) for party in before} == before
    code, found, _ = opboost("ledger", "check", workspace.folder / "bank")
    assert code == 1
    assert "store lacks" in found
    printed("store", "gc", workspace.folder / "bank", fails=True)
    # The share is mounted again: nothing else is to be done.
    (workspace.folder / "exchange").rmdir()
    away.rename(workspace.folder / "exchange")
    ledger("check", workspace, "bank")
    workspace.open()
    workspace.step("bank", "check_table")


def test_a_feature_holder_refuses_at_once_and_does_not_wait_for_a_plan(
    workspace: Workspace,
) -> None:
    own = move_to_other(workspace, "bank")
    workspace.open()
    before = entries_of(workspace, "bank")
    with pytest.raises(ConfigError, match="The store of bank is not the one"):
        workspace.step("bank", "check_table")
    assert list(own.iterdir()) == []
    assert entries_of(workspace, "bank") == before


def test_a_store_that_is_gone_in_the_middle_of_a_run_gets_nothing(workspace: Workspace) -> None:
    workspace.until("desensitize", "bank")
    before = entries_of(workspace, "bank")
    unmount(workspace)
    with pytest.raises(ConfigError, match="is not the one"):
        workspace.step("bank", "desensitize")
    assert list((workspace.folder / "exchange").iterdir()) == []
    assert entries_of(workspace, "bank") == before


def other_one(workspace: Workspace) -> None:
    shutil.rmtree(workspace.folder / "exchange" / IDENTITY)
    workspace.store.set_identity(identity_from("another agreement", workspace.run))


def none(workspace: Workspace) -> None:
    shutil.rmtree(workspace.folder / "exchange" / IDENTITY)


@pytest.mark.parametrize("change", [other_one, none])
def test_who_changes_the_identity_stops_runs_and_a_person_of_each_party_goes_on(
    workspace: Workspace, change: Callable[[Workspace], None]
) -> None:
    change(workspace)
    with pytest.raises(ConfigError, match="is not the one"):
        workspace.open()
    assert "at no charge" in ledger("recover", workspace, "credit", fails=True)
    with pytest.raises(ConfigError, match="is not the one"):
        workspace.open()
    before = entries_of(workspace, "credit")
    ledger("recover", workspace, "credit", "--yes")
    assert entries_of(workspace, "credit") == before
    workspace.open()
    if change is none:
        # It has the identity again that all others have pinned.
        workspace.step("bank", "check_table")
        return
    with pytest.raises(ConfigError, match="The store of bank is not the one"):
        workspace.step("bank", "check_table")
    ledger("recover", workspace, "bank", "--yes")
    workspace.step("bank", "check_table")
    with state_of(workspace, "bank") as state:
        assert any(e.place == "credit_scoring/store" for e in state.audit.of("noted"))


def a_link(place: Path) -> None:
    place.symlink_to("/etc/hostname")


def a_long_file(place: Path) -> None:
    place.write_bytes(b"secret" * 10_000_000)


def words(place: Path) -> None:
    place.write_text("secret\n" * 3)


@pytest.mark.parametrize("put", [a_link, a_long_file, words])
def test_what_is_no_identity_is_refused_and_not_shown(
    workspace: Workspace, put: Callable[[Path], None]
) -> None:
    place = workspace.folder / "exchange" / IDENTITY / "store"
    place.unlink()
    put(place)
    with pytest.raises(OpBoostError, match="is damaged") as error:
        workspace.open()
    assert "secret" not in str(error.value)


def test_a_party_that_uses_a_store_begins_no_second_one_for_another_federation(
    workspace: Workspace,
) -> None:
    """It would be its first run there, and nothing is pinned for it yet."""
    with state_of(workspace, "credit") as state, state.database.writing() as connection:
        connection.exec_driver_sql("UPDATE stores SET federation = 'another'")
    unmount(workspace)
    with pytest.raises(ConfigError, match="is not the one"):
        workspace.open()
    assert list((workspace.folder / "exchange").iterdir()) == []


def test_opboost_check_names_a_store_that_is_another_one(workspace: Workspace) -> None:
    move_to_other(workspace, "bank")
    assert "bank/site.yaml:store" in printed("check", workspace.folder, fails=True)

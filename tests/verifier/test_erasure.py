"""A person who was forgotten everywhere: what the receipt states, and what a verification shows."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.feather as feather
import pytest

from opboost_ops.verifier import verify
from tests.commands import printed
from tests.federation import FIRST_RUN, SECOND_RUN, Workspace, small_credit
from tests.party_state import state_of
from tests.verifier.tampering import broken, executed, statuses

PARTIES = ("credit", "shop", "bank")


def somebody(workspace: Workspace) -> str:
    """A person whom all parties have, and who is trained on."""
    rows = workspace.common_rows("credit")
    return str(pl.read_parquet(workspace.table_path("credit"))["id"][int(rows[0])])


@pytest.fixture(scope="module")
def forgotten(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, str, dict[str, Any]]:
    """Two runs, and between them a person is forgotten by all; receipts by party."""
    folder = tmp_path_factory.mktemp("forgotten")
    training = {"trees": 3, "depth": 3}
    workspace = Workspace.write(folder / "federation", small_credit(rows=200), training=training)
    workspace.all()
    # What everybody else is pinned to is drawn at random, and so the same in both.
    workspace.copy(folder / "never", SECOND_RUN)
    person, receipts = somebody(workspace), {}
    for party in PARTIES:
        receipt = workspace.folder / party / "receipt.json"
        printed("forget", workspace.folder / party, "-", "--receipt", receipt, stdin=person)
        receipts[party] = json.loads(receipt.read_text())
        assert person not in receipt.read_text()
    later = Workspace(workspace.folder, SECOND_RUN)
    later.all()
    later.registry.promote(SECOND_RUN, "a test")
    return later, person, receipts


def test_a_receipt_states_what_is_gone_and_what_cannot_be_recalled(
    forgotten: tuple[Workspace, str, dict[str, Any]],
) -> None:
    workspace, person, receipts = forgotten
    for party in ("shop", "bank"):
        released = len(workspace.declared.parties[party].features)
        assert receipts[party]["pins_removed"] == released
        assert receipts[party]["points_removed"] == 1
        place = f"credit_scoring/{FIRST_RUN}/ranks/{party}"
        assert place in receipts[party]["artifacts_that_cannot_be_recalled"]["credit"]
    assert receipts["credit"]["points_removed"] == 2
    assert receipts["credit"]["models_trained_here_before"] == [f"credit_scoring/{FIRST_RUN}"]
    # No file at home has a point or a pin of theirs: another search finds nothing. What was sent
    # is listed again: the first call may have been interrupted before it wrote its receipt.
    again = workspace.folder / "bank" / "again.json"
    printed("forget", workspace.folder / "bank", person, "--receipt", again)
    second = json.loads(again.read_text())
    assert (second["pins_removed"], second["points_removed"]) == (0, 0)
    assert (receipts["bank"]["listed_before"], second["listed_before"]) == (False, True)
    assert place in second["artifacts_that_cannot_be_recalled"]["credit"]


def test_a_receipt_names_the_pins_that_could_not_be_searched(
    forgotten: tuple[Workspace, str, dict[str, Any]], tmp_path: Path
) -> None:
    workspace = forgotten[0].copy(tmp_path / "federation", SECOND_RUN)
    for path in (workspace.folder / "bank").rglob("*.pins"):
        path.write_bytes(path.read_bytes()[:-1])
    receipt = tmp_path / "receipt.json"
    printed("forget", workspace.folder / "bank", "somebody", "--receipt", receipt)
    features = workspace.declared.parties["bank"].features
    assert json.loads(receipt.read_text())["pins_not_read_of"] == sorted(features)


def test_a_verification_shows_that_the_champion_is_without_the_person(
    forgotten: tuple[Workspace, str, dict[str, Any]],
) -> None:
    outcomes = verify([forgotten[0].folder])
    assert broken(outcomes) == set()
    for outcome in outcomes[1:]:
        assert statuses(outcome)["forgotten"] == "held"


def test_the_champion_is_the_one_of_tables_that_never_had_the_person(
    forgotten: tuple[Workspace, str, dict[str, Any]],
) -> None:
    workspace, person, _ = forgotten
    never = Workspace(workspace.folder.with_name("never"), SECOND_RUN)
    for party in PARTIES:
        never.edit_table(party, lambda table: table.filter(pl.col("id") != person))
    never.all()
    for name in ("model.txt", "columns.json"):
        assert (never.version() / name).read_bytes() == (workspace.version() / name).read_bytes()


@pytest.mark.parametrize("party", ["bank", "credit"])
def test_a_person_who_is_still_used_breaks_the_promise(
    party: str, forgotten: tuple[Workspace, str, dict[str, Any]], tmp_path: Path
) -> None:
    """Somebody else is on the list, too, of whom nothing was removed."""
    workspace = forgotten[0].copy(tmp_path / "federation", SECOND_RUN)
    with workspace.known(), state_of(workspace, party) as state:
        hashed = state.forgotten.hashed(somebody(workspace))
    executed(workspace.folder / party, f"INSERT INTO forgotten VALUES ('{hashed}')")
    assert "forgotten" in broken(verify([workspace.folder / party]))


def test_a_frame_of_other_people_breaks_the_promise(
    forgotten: tuple[Workspace, str, dict[str, Any]], tmp_path: Path
) -> None:
    workspace = forgotten[0].copy(tmp_path / "federation", SECOND_RUN)
    path = workspace.home("credit") / "frame.arrow"
    frame = pl.DataFrame(feather.read_table(path))
    feather.write_feather(frame.with_columns(label=1 - pl.col("label")).to_arrow(), path)
    assert "forgotten" in broken(verify([workspace.folder / "credit"]))

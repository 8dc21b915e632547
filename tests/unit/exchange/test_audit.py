"""The audit log: only added to, each entry chained, every kind of tampering found."""

import multiprocessing
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from opboost_ops.errors import ArtifactError
from opboost_ops.exchange.audit import GENESIS, Audit, Entry
from opboost_ops.privacy.ledger.database import Database

PLACE = "toy/0000000000000001/ranks/bank"


def opened(folder: Path) -> Audit:
    return Audit(Database(f"sqlite:///{folder / 'ledger.sqlite'}"))


def filled(folder: Path, count: int = 5) -> tuple[Audit, list[str]]:
    audit = opened(folder)
    return audit, [audit.add("sent", PLACE, "bank", f"{i:064x}") for i in range(count)]


def tamper(folder: Path, *statements: str) -> None:
    connection = sqlite3.connect(folder / "ledger.sqlite")
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def test_the_chain_grows(tmp_path: Path) -> None:
    audit, hashes = filled(tmp_path)
    assert len(set(hashes)) == 5
    assert audit.verify() == (5, hashes[-1])
    assert [(number, hash_) for number, _, hash_ in audit.entries()] == list(enumerate(hashes, 1))
    audit.add("rejected", PLACE, "telco", detail="bad_signature")
    assert opened(tmp_path).verify()[0] == 6
    *_, (_, last, _) = audit.entries()
    assert (last.action, last.place, last.party) == ("rejected", PLACE, "telco")
    assert (last.artifact, last.detail) == ("", "bad_signature")


SWAP = (
    "UPDATE audit SET number = 99 WHERE number = 2",
    "UPDATE audit SET number = 2 WHERE number = 3",
    "UPDATE audit SET number = 3 WHERE number = 99",
)
COPY = "INSERT INTO audit SELECT 6, entry, hash FROM audit WHERE number = 5"
SHIFT = (
    "UPDATE audit SET number = -number WHERE number > 2",
    "UPDATE audit SET number = 1 - number WHERE number < 0",
    "INSERT INTO audit SELECT 3, entry, hash FROM audit WHERE number = 2",
)


@pytest.mark.parametrize(
    ("statements", "broken"),
    [
        (["UPDATE audit SET entry = replace(entry, 'bank', 'telco') WHERE number = 3"], 3),
        (["UPDATE audit SET entry = CAST(entry AS BLOB) WHERE number = 4"], 4),
        (["UPDATE audit SET hash = upper(hash) WHERE number = 1"], 1),
        (["UPDATE audit SET number = 6 WHERE number = 5"], 5),
        (["DELETE FROM audit WHERE number = 1"], 1),
        (["DELETE FROM audit WHERE number = 3", "UPDATE audit SET number = 3 WHERE number = 4"], 3),
        (SWAP, 2),
        ([COPY], 6),
        (SHIFT, 3),
        (["INSERT INTO audit VALUES (6, '{}', '" + "0" * 64 + "')"], 6),
        (["INSERT INTO audit SELECT 0, entry, hash FROM audit WHERE number = 1"], 1),
    ],
)
def test_tampering_is_found_where_it_is(tmp_path: Path, statements: list[str], broken: int) -> None:
    audit, _ = filled(tmp_path)
    tamper(tmp_path, *statements)
    with pytest.raises(ArtifactError, match=f"broken at entry {broken}\\."):
        audit.verify()


@pytest.mark.parametrize("kept", [0, 2, 4])
def test_a_cut_tail_is_found_with_a_noted_head(tmp_path: Path, kept: int) -> None:
    audit, hashes = filled(tmp_path)
    tamper(tmp_path, f"DELETE FROM audit WHERE number > {kept}")
    assert audit.verify() == (kept, ([GENESIS, *hashes])[kept])
    with pytest.raises(ArtifactError, match="noted hash is not in the audit log"):
        audit.verify(hashes[-1])


@pytest.mark.parametrize(
    "text", ["{}", "no json", "[" * 100_000, '{"income": 12345}', '{"action": "stolen"}']
)
def test_an_entry_that_is_none_is_one_error(tmp_path: Path, text: str) -> None:
    audit, _ = filled(tmp_path)
    tamper(tmp_path, f"UPDATE audit SET entry = '{text}' WHERE number = 2")
    with pytest.raises(ArtifactError, match=r"broken at entry 2\.") as caught:
        list(audit.entries())
    assert "12345" not in str(caught.value)


def test_a_writer_that_fails_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit, hashes = filled(tmp_path)

    def fail(*_: object) -> str:
        raise RuntimeError

    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr("opboost_ops.exchange.audit._chain", fail)
        audit.add("sent", PLACE, "bank")
    assert audit.verify() == (5, hashes[-1])
    audit.add("sent", PLACE, "bank")
    assert audit.verify()[0] == 6


def add_many(folder: Path, party: str, start: Callable[[], object]) -> None:
    start()
    for number in range(10):
        opened(folder).add("sent", PLACE, party, detail=str(number))


@pytest.mark.slow
def test_four_processes_keep_one_chain(tmp_path: Path) -> None:
    """The first ones even make the table at the same time."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(4)
    parties = [f"party_{i}" for i in range(4)]
    processes = [
        context.Process(target=add_many, args=(tmp_path, party, barrier.wait)) for party in parties
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * 4
    audit = opened(tmp_path)
    assert audit.verify()[0] == 40
    for party in parties:
        mine = [entry.detail for _, entry, _ in audit.entries() if entry.party == party]
        assert mine == [str(number) for number in range(10)]


def test_actions_and_keys_are_a_closed_list() -> None:
    known = {"at": "now", "action": "sent", "place": PLACE, "party": "bank"}
    Entry.model_validate(known)
    for changes in ({"action": "leaked"}, {"value": 3}):
        with pytest.raises(ValidationError):
            Entry.model_validate({**known, **changes})


def test_entries_below_a_place_are_found_and_no_others(tmp_path: Path) -> None:
    audit = Audit(Database(f"sqlite:///{tmp_path / 'state.sqlite'}"))
    audit.add("sent", "credit/0001/plan/a", "a")
    audit.add("sent", "credit_2/0001/plan/a", "a", detail='"place":"credit/0001/')
    audit.add("received", "credit/0001/ranks/b", "b")
    audit.add("sent", "credit/0010/plan/a", "a")
    found = audit.below("credit/0001/")
    assert [(number, entry.place) for number, entry in found] == [
        (1, "credit/0001/plan/a"),
        (3, "credit/0001/ranks/b"),
    ]
    assert audit.below("credit/____/") == []


def test_entries_of_some_actions_are_found_however_they_are_written(tmp_path: Path) -> None:
    audit, _ = filled(tmp_path)
    for action in ("stopped", "refused", "resumed"):
        audit.add(action, PLACE, "bank", detail='{"action":"stopped"')  # type: ignore[arg-type]
    spaced = "UPDATE audit SET entry = replace(entry, '{\"action\":', '{ \"action\": ')"
    for number in (6, 7):
        tamper(tmp_path, f"{spaced} WHERE number = {number}")
    found = audit.of("stopped", "refused")
    assert [entry.action for entry in found] == ["stopped", "refused"]
    assert found == [e for _, e, _ in audit.entries() if e.action in ("stopped", "refused")]

"""Checkpoints: one for each run, and the numbers that a recovery stands for."""

import hashlib
import hmac
from collections.abc import Iterator
from pathlib import Path

import pytest

from opboost_ops.privacy.ledger.checkpoints import GENESIS, Checkpoint, Checkpoints, Standing
from opboost_ops.privacy.ledger.database import Database
from opboost_ops.privacy.ledger.entries import Ledger, LedgerEntry

KEY = bytes(32)


@pytest.fixture
def issued(tmp_path: Path) -> Iterator[Checkpoints]:
    database = Database(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    yield Checkpoints(database)
    database.close()


def test_every_run_has_the_next_number_and_a_retry_the_same(issued: Checkpoints) -> None:
    assert issued.last_number("toy", "lender") == 0
    first = issued.take(KEY, "toy", "lender", "a", (), {})
    assert first.head.number == 1
    assert first.head.head == hmac.new(KEY, f"{GENESIS}\n1\na".encode(), hashlib.sha256).hexdigest()
    second = issued.take(KEY, "toy", "lender", "b", (), {"lender": first.head})
    assert second.head.number == issued.last_number("toy", "lender") == 2
    assert issued.take(KEY, "toy", "lender", "a", (), {}) == first
    assert issued.runs("toy") == ["b", "a"]
    for head in (first.head, second.head):
        assert issued.knows("toy", "lender", head)
        assert not issued.knows("other", "lender", head)
        assert not issued.knows("toy", "shop", head)
        assert not issued.knows("toy", "lender", head.model_copy(update={"head": "f" * 64}))


def test_a_checkpoint_covers_what_was_sent_since_the_last(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    issued, ledger = Checkpoints(database), Ledger(database)
    before = GENESIS
    for number, run in enumerate(("a" * 16, "b" * 16), 1):
        sent = {"federation": "toy", "run": run, "party": "b0", "rows": 1, "account": "exact"}
        lines = [
            {"receiver": "lender", "kind": "ranks", "artifact": run[0] * 64},
            {"receiver": "lender", "kind": "model", "artifact": "d" * 64},
            {"receiver": "shop", "kind": "ranks", "artifact": "e" * 64},
        ]
        ledger.reserve([LedgerEntry(**sent, **line) for line in lines])
        head = issued.take(KEY, "toy", "lender", f"next {run}", {"ranks"}, {}).head
        text = f"{before}\n{number}\nnext {run}\n{run}/ranks/{run[0] * 64}"
        assert head.head == hmac.new(KEY, text.encode(), hashlib.sha256).hexdigest()
        before = head.head
    database.close()


def test_a_recovery_stands_for_the_numbers_that_it_charged(issued: Checkpoints) -> None:
    recovered = Standing(head=Checkpoint(number=7, head="a" * 64))
    issued.enter("toy", "lender", "", recovered, after=3)
    covered = [number for number in range(1, 10) if issued.covers("toy", "lender", number)]
    assert covered == [4, 5, 6, 7]


def test_only_the_latest_checkpoint_of_a_party_is_kept(issued: Checkpoints) -> None:
    old, new = (Checkpoint(number=number, head="a" * 64) for number in (1, 2))
    for head in (old, new, old):
        issued.receive("toy", "b0", "lender", head)
    issued.receive("toy", "b1", "lender", old)
    assert issued.received("toy", "lender") == {"b0": new, "b1": old}
    assert issued.received("toy", "shop") == issued.received("other", "lender") == {}


@pytest.mark.parametrize("number", [0, 2**63])
def test_a_number_that_no_database_holds_is_no_checkpoint(number: int) -> None:
    with pytest.raises(ValueError, match="number"):
        Checkpoint(number=number, head="a" * 64)

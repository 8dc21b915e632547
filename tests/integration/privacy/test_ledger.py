"""The ledger: lines are only added, and a retry adds none."""

import json
from pathlib import Path

import pytest

from opboost_ops.config.columns import columns_of
from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError
from opboost_ops.mechanisms.maps import GlobalMap
from opboost_ops.privacy.ledger.database import Database
from opboost_ops.privacy.ledger.entries import Ledger, LedgerEntry, entry_of
from opboost_ops.privacy.loss import LossCurve, column_losses, loss_curve
from tests.federation import Workspace
from tests.party_state import state_of


def release(feature: str | None, artifact: str = "a" * 64) -> LedgerEntry:
    protected = feature is not None
    return LedgerEntry(
        federation="toy",
        run="0" * 16,
        party="bank",
        receiver="credit",
        kind="ranks" if protected else "psi_answer",
        artifact=artifact,
        account="local_dp" if protected else "exact",
        feature=feature,
        column="INCOME" if protected else None,
        loss=loss_curve(GlobalMap(epsilon=1.0), Domain(1, 10)) if protected else None,
        rows=7,
        discloses="" if protected else "row count",
    )


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.sqlite'}"


def test_releases_come_back_in_order_and_whole(url: str) -> None:
    events = [release("income"), release("debt"), release(None)]
    database = Database(url)
    ledger = Ledger(database)
    assert ledger.reserve(events[:2]) == 2
    assert ledger.reserve(events[2:]) == 1
    database.close()
    assert Ledger(Database(url)).entries() == events
    assert [event for _, event in ledger.dated()] == events


def test_a_runs_lines_are_asked_for_alone(url: str) -> None:
    """A line in which the run's id stands elsewhere is none of the run's."""
    first, second = "0" * 16, "1" * 16
    mine = release("income").model_copy(update={"run": first})
    other = release("debt").model_copy(update={"run": second, "discloses": f"as in {first}"})
    also = release(None).model_copy(update={"run": first})
    elsewhere = release("rent").model_copy(update={"run": first, "federation": "others"})
    database = Database(url)
    ledger = Ledger(database)
    ledger.reserve([mine, other, also, elsewhere])
    name = mine.federation
    assert [line for _, line in ledger.of_run(name, first)] == [mine, also]
    assert [line for _, line in ledger.of_run(name, second)] == [other]
    assert [line for _, line in ledger.of_run("others", first)] == [elsewhere]
    # No id is a pattern.
    assert len(ledger.of_run(name, "%")) == len(ledger.of_run(name, "_" * 16)) == 0
    database.close()


def test_a_retry_adds_nothing(url: str) -> None:
    events = [release("income"), release(None)]
    ledger = Ledger(Database(url))
    assert ledger.reserve(events) == 2
    assert ledger.reserve(events) == 0
    assert Ledger(Database(url)).reserve([*events, release("debt")]) == 1
    assert len(ledger.entries()) == 3


def test_another_artifact_is_another_release(url: str) -> None:
    ledger = Ledger(Database(url))
    ledger.reserve([release("income"), release("income", "b" * 64)])
    assert [event.artifact[0] for event in ledger.entries()] == ["a", "b"]


def test_a_database_that_cannot_be_opened_does_not_show_its_password() -> None:
    for url in ("postgresql://me:hunter2@127.0.0.1:1/x", "nonsense://hunter2", "hunter2"):
        with pytest.raises(ConfigError, match="ledger") as caught:
            Database(url)
        assert "hunter2" not in str(caught.value)


def test_every_artifact_of_a_run_has_its_lines(trained_once: Workspace) -> None:
    """What lies in the exchange and what the ledgers say are the same."""
    federation = trained_once.declared
    for party in federation.parties:
        with state_of(trained_once, party) as state:
            events = state.ledger.entries()
            assert state.ledger.uncommitted() == []
        assert {event.party for event in events} == {party}
        told = {event.kind for event in events if event.receiver.startswith("everyone")}
        own = {"check_table", "open_rows", "register", "announce_champion"}
        assert told == (own if party == "credit" else {"check_table"})
        kinds = {(event.kind, event.receiver) for event in events if event.kind not in told}
        if party == "credit":
            both = ("shop", "bank")
            sent = {(kind, p) for kind in ("psi_query", "split_request") for p in both}
            assert kinds == {("plan", "credit"), *sent}
        else:
            told_to = ("release", "psi_answer", "shares", "ranks", "split_values")
            assert kinds == {(kind, "credit") for kind in told_to}
        columns = columns_of(federation, party) if party != "credit" else ()
        charged, losses = {c.charge: c for c in columns}, column_losses(columns)
        for event in events:
            assert event.experiment is True
            if event.kind in ("release", "ranks"):
                assert (event.artifact == event.release) is (event.kind == "release")
                assert event.account == "local_dp"
                assert event.column == charged[event.feature or ""].feature
                assert event.loss == losses[event.feature or ""]
            else:
                assert event.account == "exact"
                assert event.discloses
        protected = [e.feature for e in events if e.kind == "ranks"]
        assert sorted(f or "" for f in protected) == sorted(losses)


@pytest.mark.parametrize(
    "words",
    [
        "Global-map, epsilon 0.64",
        'a}, "epsilon": 1',
        '"loss": {',
        "\\",
        '}, "epsilon": {"loss": {"mechanism": "',
    ],
)
def test_a_line_is_read_as_it_was_written_whatever_its_words_are(words: str) -> None:
    """Its loss curve is cut out and read apart."""
    curve = LossCurve(mechanism=words, epsilon=1.0, loss=(0.5, "inf"), certificate=False)
    first = release("age").model_copy(update={"loss": curve, "discloses": words, "epsilon": 2.0})
    second = first.model_copy(update={"loss": None})
    for line in (first, second):
        assert entry_of(json.dumps(line.model_dump(mode="json"))) == line

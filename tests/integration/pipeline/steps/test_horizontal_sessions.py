"""A session of sums is held once: its masks are never another's, and its record outlives it."""

import json
import shutil
from pathlib import Path

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from opboost_ops.cli import app
from opboost_ops.extras.datasets.generated import NAME
from opboost_ops.extras.datasets.workspace import agree_for_all
from opboost_ops.pipeline.party.inbox import Run
from opboost_ops.pipeline.phases import ROUNDS
from tests.integration.pipeline.steps.test_horizontal_runs import TRAIN, Lenders
from tests.party_state import state_of

FEW = {"trees": 1, "depth": 1}


@pytest.fixture
def lenders(tmp_path, monkeypatch):
    """Lenders without encryption, so that masked vectors can be compared."""
    found = Lenders(tmp_path / "all", monkeypatch, training=FEW)
    for name in found.names:
        found.allow(name, require_encryption=False)
    found.edit(lambda data: [of.pop("encryption_key") for of in data["parties"].values()])
    return found


def masked(lenders):
    """Bytes of every masked vector in the store, by place."""
    root = lenders.folder / "exchange"
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("masked/**/vector.bin")}


def remove(lenders):
    """Take the run out of the store and of every party's home; its plan comes again."""
    shutil.rmtree(lenders.folder / "exchange" / NAME / TRAIN)
    for name in lenders.names:
        shutil.rmtree(lenders.home(name))
        # A plan names the champion to compare with: none, as the first time.
        shutil.rmtree(lenders.folder / name / "models")


def test_a_removed_session_is_refused_at_every_party(lenders):
    lenders.all()
    assert len(masked(lenders)) > 20
    remove(lenders)
    _, errors = lenders.run()
    assert set(errors) == set(lenders.names)
    assert all("a session never takes place twice" in str(error) for error in errors.values())
    assert masked(lenders) == {}
    assert not list((lenders.folder / "exchange" / NAME / TRAIN).glob("round_key/*"))


def test_no_two_sessions_of_one_run_and_plan_share_a_mask(lenders):
    lenders.all()
    before = masked(lenders)
    remove(lenders)
    for name in lenders.names:
        # The worst case: the state is lost as well, so that nobody knows of the first session.
        with state_of(lenders, name) as state, state.database.writing() as connection:
            for table in sa.inspect(connection).get_table_names():
                if table != "schema":
                    connection.exec_driver_sql(f"DELETE FROM {table}")
    agree_for_all(lenders.file)
    lenders.all()
    after = masked(lenders)
    assert set(after) == set(before)
    assert [place for place in after if after[place] == before[place]] == []


def test_a_retry_repeats_its_session_to_the_byte(lenders):
    lenders.run(until=ROUNDS)
    passive = lenders.names[2]
    names = lenders.names[1:]
    # The active party is late: the others' keys are out, and the first try is given up.
    asked = Run(NAME, TRAIN, lenders.names[0])
    key = lenders.home(passive) / "session.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("opboost_ops.pipeline.runner.mailboxes.patience_of", lambda _: 0.2)
        _, errors = lenders.together(names)
    assert set(errors) == set(names)
    kept = json.loads(key.read_text())
    place = lenders.folder / "exchange" / NAME / TRAIN / "round_key" / passive / "keys"
    sent = (place / "document.json").read_bytes()
    said, errors = lenders.together()
    assert not errors
    assert (place / "document.json").read_bytes() == sent
    # At the end the key is destroyed; its name stays in the ledger for ever.
    ended = json.loads(key.read_text())
    assert (ended["name"], ended["key"]) == (kept["name"], None)
    # It is in none of the party's files, nor in the store, in letters or as it is.
    places = [lenders.folder / passive, lenders.folder / "exchange"]
    files = [p.read_bytes() for place in places for p in place.rglob("*") if p.is_file()]
    written = (kept["key"].encode(), bytes.fromhex(kept["key"]))
    assert len(files) > 20 and not any(form in file for file in files for form in written)
    with state_of(lenders, passive) as state:
        session = state.sessions.find(NAME, TRAIN)
    assert session.name == kept["name"] and session.ended_at is not None
    # What has ended can be read again, and not a byte more is sent.
    before = masked(lenders)
    again: dict = {}
    lenders._one(passive, asked, again, errors)
    assert not errors
    assert again[passive, ROUNDS]["conversation"] == said[passive, ROUNDS]["conversation"]
    assert again[passive, ROUNDS]["messages"] == 0
    assert masked(lenders) == before


def test_after_the_end_no_vector_can_be_made_again(lenders):
    lenders.all()
    decisions = lenders.folder / "exchange" / NAME / TRAIN / "decision" / lenders.names[0]
    shutil.rmtree(decisions / "trees-00000-00")
    before = masked(lenders)
    _, errors = lenders.together()
    assert set(errors) == set(lenders.names)
    assert all("have ended" in str(error) for error in errors.values())
    assert masked(lenders) == before


def test_retention_removes_old_runs_at_every_party(lenders):
    lenders.all()
    for name in lenders.names:
        site = lenders.folder / name / "site.yaml"
        site.write_text(site.read_text() + "keep_runs_days: 0.0000001\n")
        done = CliRunner().invoke(app, ["store", "gc", str(Path(site).parent)])
        assert f"Removed {NAME}/{TRAIN}" in done.output, name
        assert not lenders.home(name).exists()

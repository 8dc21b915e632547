"""Whole runs in which a party drops out: models, books, what `check` and the report say."""

import json
import threading

import pytest
import yaml
from typer.testing import CliRunner

from opboost_ops.aggregation.recovering import RecoveringMailbox
from opboost_ops.api.experiments import run_document
from opboost_ops.boosting.private_federboost import noise_of
from opboost_ops.cli import app
from opboost_ops.config.loading import load_federation, load_site
from opboost_ops.datasets.lenders import NAME
from opboost_ops.errors import ConfigError
from opboost_ops.models.registry import Registry
from opboost_ops.run.inbox import Run
from opboost_ops.run.local import Finished
from opboost_ops.run.phases import ROUNDS
from opboost_ops.run.runner import run_stage
from opboost_ops.stages.boost import private_of, settings_of
from tests.unit.stages.test_horizontal_private import models, together
from tests.unit.stages.test_horizontal_runs import TRAIN, Lenders

PRIVATE = {"epsilon": 8.0, "delta": 1e-4, "remain": 3, "patience_minutes": 0.03}
TRAINING = {"trees": 25, "depth": 2, "private": PRIVATE}


@pytest.fixture
def lenders(tmp_path, monkeypatch):
    return Lenders(tmp_path / "all", monkeypatch, parties=4, training=TRAINING)


def test_a_run_ends_with_one_model_at_all_and_every_party_is_charged(lenders, monkeypatch):
    lenders.run(until=ROUNDS)
    gone = lenders.names[3]
    real = RecoveringMailbox.step

    def step(box, name, *rest):
        # Its process ends in the second round of trees.
        if box._me.party == gone and name.tree == 10 and threading.current_thread().name != "back":
            raise ConfigError("killed")
        return real(box, name, *rest)

    monkeypatch.setattr(RecoveringMailbox, "step", step)
    said, errors = together(lenders, lenders.names)
    assert set(errors) == {gone} and "killed" in str(errors[gone])
    for name in lenders.names[:3]:
        assert said[name, ROUNDS]["parties"] == {"declared": 4, "remained": 3}
    # It comes back when the others are done: it reads what was decided, and sends nothing.
    store = lenders.folder / "exchange" / NAME / TRAIN
    before = {path for path in store.rglob("*") if gone in path.parts}
    asked = Run(NAME, TRAIN, lenders.names[0])
    late = threading.Thread(target=lenders._one, args=(gone, asked, said, errors), name="back")
    errors.clear()
    late.start()
    late.join()
    assert not errors and said[gone, ROUNDS]["parties"]["remained"] == 3
    assert {path for path in store.rglob("*") if gone in path.parts} == before
    texts = set()
    for name in lenders.names:
        for stage in ("check_model", "evaluate_own", "register"):
            said[name, stage] = run_stage(name, stage, asked)
        registry = Registry(load_site(lenders.folder / name / "site.yaml").models, NAME)
        texts.add(registry.file(TRAIN, "model.txt"))
    assert len(texts) == 1
    # The charge is of h = 2 honest shares, in full at all four, and no more for the level at which
    # the party was missed.
    added = noise_of(settings_of(lenders.federation), private_of(lenders.federation))
    assert added.honest == 2
    for name in lenders.names:
        (line,) = models(lenders, name)
        assert line.curve == added.curve
    by_party = {
        name: {stage: told for (n, stage), told in said.items() if n == name}
        for name in lenders.names
    }
    spent = {n: {ROUNDS: {"seconds": 1.0, "waited": 0.5, "cpu": 1.0}} for n in lenders.names[:3]}
    finished = Finished(TRAIN, lenders.federation, by_party, spent, [gone])
    told = run_document(lenders.file, finished)
    assert told["gone"] == [gone] and set(told["metrics"]) == set(lenders.names[:3])
    assert json.dumps(told)


def test_check_says_who_may_drop_out(lenders):
    done = CliRunner().invoke(app, ["check", str(lenders.folder)])
    assert "1 of 4 parties may drop out, but for lender_01: who sends nothing for 0.03" in (
        " ".join(done.output.split())
    )
    assert "2 that cheat, or 3 that do not, learn another party's own" in (
        " ".join(done.output.split())
    )


@pytest.mark.parametrize(
    ("parties", "private", "told"),
    [
        (5, {"remain": 3}, "2 x 3 is not above parties + colluding, 6 (declare 4 or more)"),
        (8, {"remain": 5, "colluding": 4}, "2 x 5 is not above parties + colluding, 12"),
        (4, {"remain": 3, "colluding": 2}, "take it out: no party may drop out"),
        (4, {"remain": 3, "colluding": 3}, "leaves no party whose noise counts"),
        (4, {"remain": 3, "patience_minutes": 8}, "is not below half of training.wait_minutes"),
    ],
)
def test_numbers_that_protect_nobody_are_faults_of_the_file(
    tmp_path, monkeypatch, parties, private, told
):
    training = {"private": {"epsilon": 8.0, "delta": 1e-4}, "wait_minutes": 15}
    lenders = Lenders(tmp_path / "all", monkeypatch, parties=parties, training=training)
    data = yaml.safe_load(lenders.file.read_text())
    data["training"]["private"].update(private)
    lenders.file.write_text(yaml.safe_dump(data, sort_keys=False))
    with pytest.raises(ConfigError) as raised:
        load_federation(lenders.file)
    assert told in str(raised.value)

"""Whole runs of horizontal learning with noise in all sums: state, retries, what is told."""

import json

import numpy as np
import pyarrow.feather as feather
import pytest

from opboost_ops.api.runs import run_document
from opboost_ops.errors import BudgetError, ConfigError
from opboost_ops.extras.datasets.generated import NAME
from opboost_ops.learning.federboost.private_federboost import noise_of
from opboost_ops.learning.private import noise
from opboost_ops.pipeline.inputs.model_columns import LABEL
from opboost_ops.pipeline.phases import ROUNDS
from opboost_ops.pipeline.runner.local import Finished
from opboost_ops.pipeline.steps.boost import private_of, settings_of
from opboost_ops.privacy.ledger.budgets import account_of
from tests.integration.pipeline.steps.test_horizontal_runs import TRAIN, Lenders
from tests.party_state import entries_of

PRIVATE = {"epsilon": 4.0, "delta": 1e-4, "colluding": 1}
TRAINING = {"trees": 25, "depth": 2, "private": PRIVATE}
SECOND = "0" * 15 + "3"


@pytest.fixture
def lenders(tmp_path, monkeypatch):
    return Lenders(tmp_path / "all", monkeypatch, training=TRAINING)


def models(lenders, party):
    """The party's ledger lines of models."""
    return [line for line in entries_of(lenders, party) if line.account == "model"]


def test_a_run_charges_every_party_and_tells_its_epsilon(lenders):
    said = lenders.all()
    texts = {lenders.registry(name).file(TRAIN, "model.txt") for name in lenders.names}
    assert len(texts) == 1
    added = noise_of(settings_of(lenders.federation), private_of(lenders.federation))
    assert 3.9 < added.curve.epsilon <= 4 and added.honest == 2
    for name in lenders.names:
        (line,) = models(lenders, name)
        assert line.curve == added.curve and line.epsilon == added.curve.epsilon
        assert line.receiver.endswith("is given the model")
        kinds = {r.kind: r for r in entries_of(lenders, name)}
        # What the sums tell has its line; nothing else says rows or sums exactly.
        assert not {"boost_facts", "boost_lookup", "boost_histograms", "boost_model"} & set(kinds)
        assert "encode_rows" not in kinds
        assert "rows" not in said[name, "encode_rows"]
        card = json.loads(
            (lenders.site(name).models / NAME / TRAIN / "card.json")
            .read_text()
        )  # fmt: skip
        assert "(epsilon 4, delta 0.0001) for a row added or removed" in card["private"][0]
        assert added.guarantee(3) in card["private"][0]
        charged = [line for line in models(lenders, name) if line.kind == "model"]
        assert added.guarantee(3) in charged[0].discloses
        assert not [one for one in card["limits"] if "not differentially private" in one]
    by_party = {
        name: {stage: told for (n, stage), told in said.items() if n == name}
        for name in lenders.names
    }
    spent = {n: {ROUNDS: {"seconds": 1.0, "waited": 0.5, "cpu": 1.0}} for n in lenders.names}
    finished = Finished(TRAIN, lenders.federation, by_party, spent)
    told = run_document(lenders.file, finished)
    assert told["private"] == {"epsilon": added.curve.epsilon, "delta": 1e-4}
    assert set(told["metrics"]) == set(lenders.names)


def test_a_retry_sends_the_noisy_vector_that_was_kept_and_draws_nothing(lenders, monkeypatch):
    lenders.run(until=ROUNDS)
    passive = lenders.names[1:]
    drawn = []
    real = noise.skellam
    monkeypatch.setattr(noise, "skellam", lambda n, m: drawn.append(n) or real(n, m))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("opboost_ops.pipeline.runner.mailboxes.patience_of", lambda _: 0.3)
        # First the keys of all are out, then the active party is away.
        patch.setattr("opboost_ops.exchange.rounds.mailbox.Mailbox.step", _stops)
        _, errors = lenders.together(lenders.names)
        assert set(errors) == set(lenders.names)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("opboost_ops.pipeline.runner.mailboxes.patience_of", lambda _: 0.3)
        _, errors = lenders.together(passive)
        assert all("waits for" in str(error) for error in errors.values())
    assert len(drawn) == 2
    kept = {name: (lenders.home(name) / "rounds" / "facts-00000-00.bin") for name in passive}
    before = {name: path.read_bytes() for name, path in kept.items()}
    assert all(len(models(lenders, name)) == 1 for name in passive)
    drawn.clear()
    _, errors = lenders.together(lenders.names)
    assert not errors
    # The two vectors of the first round were not drawn again; all later ones were, once a party.
    assert drawn.count(2) == 1
    for name in passive:
        assert kept[name].read_bytes() == before[name]
    assert all(len(models(lenders, name)) == 1 for name in lenders.names)


def _stops(self, *_):
    raise ConfigError("stopped")


@pytest.mark.slow
def test_a_broken_session_stays_charged_and_a_new_one_is_charged_anew(lenders):
    lenders.run(until=ROUNDS)
    name = lenders.names[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("opboost_ops.pipeline.runner.mailboxes.patience_of", lambda _: 0.1)
        _, errors = lenders.together([name])
    assert "waits for" in str(errors[name])
    (broken,) = models(lenders, name)
    lenders.all(SECOND)
    lines = models(lenders, name)
    assert len(lines) == 2 and lines[0] == broken and lines[1].artifact != broken.artifact
    account = account_of(lines)
    spent = float(account.epsilon)
    assert broken.epsilon < spent < 2 * broken.epsilon
    assert account.delta == 1e-4


def test_a_budget_that_would_be_passed_refuses_before_anything_leaves(lenders):
    name = lenders.names[2]
    # It allows the run when it begins, and no longer when the rounds do.
    lenders.run(until=ROUNDS)
    lenders.allow(name, model_budget={"epsilon": 3.0})
    _, errors = lenders.together([name])
    assert "model_budget.epsilon at delta 0.0001 is 3" in str(errors[name])
    assert not list((lenders.folder / "exchange" / NAME / TRAIN).glob(f"round_key/{name}"))
    assert models(lenders, name) == []


def test_noisy_sums_that_pass_a_budget_end_the_run_at_the_partys_first_task(lenders):
    name = lenders.names[2]
    lenders.allow(name, model_budget={"epsilon": 3.0})
    with pytest.raises(
        BudgetError, match=r"model_budget\.epsilon at delta 0\.0001 is 3, .* cost 8\.7"
    ):
        lenders.run()
    assert not list((lenders.folder / "exchange" / NAME / TRAIN).glob("round_key/*"))
    assert models(lenders, name) == []


@pytest.mark.slow
def test_a_delta_not_below_one_in_all_rows_is_one_refusal_at_every_party(tmp_path, monkeypatch):
    training = {**TRAINING, "private": {**PRIVATE, "delta": 0.005}}
    lenders = Lenders(tmp_path / "all", monkeypatch, training=training)
    _, errors = lenders.run()
    assert set(errors) == set(lenders.names)
    assert all("not below 1 / rows" in str(error) for error in errors.values())
    assert all(len(models(lenders, name)) == 1 for name in lenders.names)
    vectors = list((lenders.folder / "exchange").rglob("masked/*/trees-*"))
    assert vectors == []


@pytest.mark.slow
def test_a_number_is_learnt_from_noisy_sums_too(tmp_path, monkeypatch):
    private = {**PRIVATE, "epsilon": 60.0}
    lenders = Lenders(tmp_path / "all", monkeypatch, training={**TRAINING, "private": private})
    label = {"column": "debt_ratio", "task": "regression", "bounds": [0, 0.4]}
    lenders.declare(lambda data: data["features"].pop("debt_ratio"))
    lenders.declare(lambda data: data.update(label=label))
    said = lenders.all()
    for name in lenders.names:
        found = said[name, "evaluate_own"]["metrics"]["federated_local"]
        assert np.isfinite(list(found.values())).all()
        # Labels outside their bounds stop nobody; how many there were is the party's to know.
        label = feather.read_table(lenders.home(name) / "rows.arrow")[LABEL].to_numpy()
        outside = int((label > 0.4).sum())
        assert outside
        known = json.loads((lenders.home(name) / "clipped_labels.json").read_text())
        assert known == {"rows": outside}
        assert "clipped" not in json.dumps([told for (n, _), told in said.items() if n == name])

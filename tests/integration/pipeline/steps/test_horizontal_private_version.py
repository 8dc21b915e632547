"""Every file of a private version of horizontal learning, and each number in it, at each party."""

import json
from typing import Any

import pytest

from opboost_ops.learning.private.metrics import noisy_metric
from opboost_ops.learning.registry.card import Card
from opboost_ops.privacy.ledger.budgets import account_of
from opboost_ops.reports.version_page import card_page
from tests.integration.pipeline.steps.test_horizontal_private import TRAINING, models
from tests.integration.pipeline.steps.test_horizontal_runs import TRAIN, Lenders
from tests.integration.pipeline.steps.test_private_version import ENTRIES as VERTICAL
from tests.integration.pipeline.steps.test_private_version import entries, fits
from tests.party_state import entries_of

#: What each entry of a version's JSON files depends on, where it is not as in vertical learning. A
#: new entry belongs here, and what it may depend on is to be decided. Entries of metrics are exact
#: lines of the ledger unless ``metrics_epsilon`` is declared; that of importance is at home alone.
ENTRIES = {
    file: {path for paths in known.values() for path in paths if "desensitised" not in path}
    for file, known in VERTICAL.items()
}
METRIC = {"metrics.federated_local.accuracy"}
ENTRIES["evaluation.json"] |= METRIC
ENTRIES["card.json"] |= METRIC

#: Where metrics have no noise; importance is at home alone.
EXACT = {
    "evaluation.json": {"metrics.federated_local.auc"},
    "card.json": {"metrics.federated_local.auc", "importance.*.*"},
}


@pytest.mark.parametrize("epsilon", [pytest.param(None, marks=pytest.mark.slow), 0.5])
def test_each_number_at_each_party_is_charged_declared_or_said_to_be_exact(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, epsilon: float | None
) -> None:
    private = {**TRAINING["private"], **({"metrics_epsilon": epsilon} if epsilon else {})}
    lenders = Lenders(tmp_path / "all", monkeypatch, training={**TRAINING, "private": private})
    said = lenders.all()
    for name in lenders.names:
        files = lenders.registry(name).files(TRAIN)
        # No scoring.json: nothing was fitted on held-out rows.
        assert set(files) == {
            *ENTRIES, "card.html", "federation.json", "model.txt", "sha256.json",
        }  # fmt: skip
        for file, known in ENTRIES.items():
            patterns = known | (set() if epsilon else EXACT.get(file, set()))
            for path in entries(json.loads(files[file])):
                assert any(fits(path, pattern) for pattern in patterns), f"{file}: {path}"

        # Neither a model of the own rows alone, nor an interval, nor a curve: nor in what is told.
        told = said[name, "evaluate_own"]
        assert set(told["metrics"]) == {"federated_local"}
        evaluation, card = json.loads(files["evaluation.json"]), json.loads(files["card.json"])
        gate = json.loads((lenders.home(name) / "gate.json").read_text())
        known = {"metric", "tolerance", "new", "version", "value", "detectable", "promote", "why"}
        assert set(gate) == known
        assert told["metrics"] == evaluation["metrics"] == card["metrics"]
        decision = gate["why"]
        page = card_page(Card.model_validate(card), evaluation, None, decision)
        assert files["card.html"].decode() == page
        # No picture is of held-out rows: the model itself shows the importance of features.
        assert page.count("<figcaption>") == page.count("Importance of features")

        exact = {r.kind: r.discloses for r in entries_of(lenders, name) if r.account == "exact"}
        charged = {line.kind: line.epsilon for line in models(lenders, name)}
        words = " ".join([*card["private"], *card["disclosed"]])
        if epsilon is None:
            assert set(charged) == {"model"}
            assert exact["evaluate_own"].startswith("metrics of the model: exact functions")
            assert "became champion" in exact["register"]
            assert "which are exact functions of each party's own held-out rows" in words
            assert card["importance"] and "the card stays with its party" in words
            continue
        # What is charged is what was drawn; whatever follows from it, the decision too, is free.
        assert charged["metrics"] == epsilon and set(charged) == {"model", "metrics"}
        assert account_of(models(lenders, name)).epsilon > charged["model"]
        assert exact["evaluate_own"] == "how many rows this party holds out"
        assert "register" not in exact
        drawn = json.loads((lenders.home(name) / "drawn_metrics.jsonl").read_bytes())
        found = noisy_metric("binary", drawn["sums"][0], evaluation["rows"], (0.0, 1.0))
        assert evaluation["metrics"] == {"federated_local": found}
        assert gate["new"] == found["accuracy"] and card["importance"] == []
        assert "Metrics on a party's held-out rows have noise" in words
        assert "exact functions" not in words

"""The gate rejects a model below the best so far, so that small steps down do not add up."""

import json
from dataclasses import dataclass
from pathlib import Path

import lightgbm
import numpy as np
import pytest

from opboost_ops.config.federation import Federation, Party
from opboost_ops.config.site import Site
from opboost_ops.learning import metrics
from opboost_ops.learning.intervals import Comparison
from opboost_ops.learning.registry.registry import Registry
from opboost_ops.pipeline.evaluation.gate import ALONE, REFERENCE, interval_gate, private_gate
from opboost_ops.pipeline.evaluation.reference import approved, reference_of
from tests.federation import Workspace

NEW = "federated_desensitised"


@dataclass
class Deciding:
    """What a gate needs of a context."""

    federation: Federation
    site: Site
    run: str = "f" * 16
    party: str = "credit"

    @property
    def declared(self) -> Party:
        return self.federation.parties[self.party]

    @property
    def registry(self) -> Registry:
        return Registry(self.site.models, self.federation.name)

    def register(self, version: str, values: dict[str, float], promote: bool = True) -> None:
        """A version with the federation as it is now."""
        found = {"mode": "desensitised", "metrics": {NEW: values}}
        files = {
            "model.txt": b"tree",
            "evaluation.json": json.dumps(found).encode(),
            "federation.json": self.federation.model_dump_json().encode(),
        }
        self.registry.register(version, files)
        self.registry.decide(version, promote, "the gate")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace.write(tmp_path_factory.mktemp("gate") / "federation")


@pytest.fixture
def deciding(written: Workspace, tmp_path: Path) -> Deciding:
    site = written.site("credit")
    return Deciding(written.declared, site.model_copy(update={"models": tmp_path / "models"}))


@pytest.fixture(scope="module")
def boosted() -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """Labels of held-out rows, and what the first trees of one booster predict for them."""
    random = np.random.default_rng(7)
    x = random.normal(size=(9000, 12))
    label = (random.random(9000) < 1 / (1 + np.exp(-x @ np.linspace(0.1, 0.6, 12)))).astype(float)
    parameters = {"objective": "binary", "num_leaves": 4, "learning_rate": 0.1, "verbose": -1}
    data = lightgbm.Dataset(x[:3000], label[:3000])
    booster = lightgbm.train({**parameters, "num_threads": 1, "seed": 1}, data, 60)
    trees = (60, 50, 40, 35, 30, 20)
    found = {k: np.asarray(booster.predict(x[3000:], num_iteration=k)) for k in trees}
    return label[3000:], found


def name(trees: int) -> str:
    return f"{trees:016d}"


def test_fewer_and_fewer_trees_do_not_ratchet_the_bar_down(
    deciding: Deciding, boosted: tuple[np.ndarray, dict[int, np.ndarray]]
) -> None:
    label, predictions = boosted
    areas = {k: metrics.evaluate("binary", label, p)["auc"] for k, p in predictions.items()}
    steps = list(predictions)
    deciding.register(name(60), {"auc": areas[60]})
    for now in steps[1:]:
        reference = reference_of(deciding.federation, deciding.registry)
        assert reference == name(60)
        comparison = Comparison(
            "binary", label, {NEW: predictions[now], REFERENCE: predictions[60]}
        )
        decision = interval_gate(deciding, "binary", comparison, reference)  # type: ignore[arg-type]
        assert decision["gain"]["value"] == pytest.approx(areas[now] - areas[60])
        assert decision["promote"] == (areas[now] >= areas[60])
        deciding.register(name(now), {"auc": areas[now]}, decision["promote"])
    assert not decision["promote"]
    assert "shown to be worse" in decision["why"]


def test_the_reference_is_what_a_person_approved_else_the_best(deciding: Deciding) -> None:
    federation, registry = deciding.federation, deciding.registry
    assert reference_of(federation, registry) is None
    deciding.register("a" * 16, {"auc": 0.70})
    deciding.register("b" * 16, {"auc": 0.75})
    deciding.register("c" * 16, {"auc": 0.72})
    deciding.register("d" * 16, {"auc": 0.99}, promote=False)
    assert registry.champion() == "c" * 16
    assert approved(registry) is None
    assert reference_of(federation, registry) == "b" * 16
    registry.promote("c" * 16, "it is the fairest")
    assert reference_of(federation, registry) == "c" * 16
    deciding.register("e" * 16, {"auc": 0.80})
    assert registry.champion() == "e" * 16
    assert reference_of(federation, registry) == "c" * 16
    assert registry.rollback("drift") == "c" * 16


def test_a_version_of_other_columns_is_no_reference(deciding: Deciding) -> None:
    before = deciding.federation
    bank = before.parties["bank"]
    fewer = dict(list(bank.features.items())[1:])
    parties = {**before.parties, "bank": bank.model_copy(update={"features": fewer})}
    deciding.federation = before.model_copy(update={"parties": parties})
    deciding.register("a" * 16, {"auc": 0.9})
    deciding.federation = before
    deciding.register("b" * 16, {"auc": 0.7})
    deciding.register("c" * 16, {"auc": 0.6})
    assert reference_of(before, deciding.registry) == "b" * 16


def comparison_of(shift: float, against: str) -> Comparison:
    """A model whose score is better by a shift than another that is nearly as good."""
    random = np.random.default_rng(2)
    label = (random.random(800) < 0.4).astype(float)
    base = label + random.normal(scale=1.5, size=800)
    new = base + shift * label + random.normal(scale=0.05, size=800)
    return Comparison(
        "binary", label, {NEW: 1 / (1 + np.exp(-new)), against: 1 / (1 + np.exp(-base))}
    )


@pytest.mark.parametrize(
    ("shift", "promoted", "words"),
    [
        (-0.5, False, "the other parties' columns do not pay at this epsilon"),
        (0.0, True, "no gain shown"),
        (0.5, True, "the first model: auc"),
    ],
)
def test_a_first_model_is_compared_with_the_label_holder_alone(
    deciding: Deciding, shift: float, promoted: bool, words: str
) -> None:
    comparison = comparison_of(shift, ALONE)
    decision = interval_gate(deciding, "binary", comparison, None)  # type: ignore[arg-type]
    assert (decision["promote"], decision["against"]) == (promoted, "alone")
    assert words in decision["why"]
    assert f"{comparison.gain(NEW, ALONE, 'auc').low:+.4f}" in decision["why"]


@pytest.mark.parametrize(
    ("shift", "tolerance", "promoted", "words"),
    [
        (-0.5, 0.0, False, "shown to be worse"),
        (-0.5, 0.5, True, "shown to be worse, tolerance 0.5"),
        (-0.002, 0.0, False, "worse on these rows, and not shown to be"),
        (0.0, 0.01, True, "no gain shown, tolerance 0.01"),
        (0.5, 0.0, True, "better"),
    ],
)
def test_a_later_model_is_compared_with_the_reference(
    deciding: Deciding, shift: float, tolerance: float, promoted: bool, words: str
) -> None:
    training = deciding.federation.training.model_copy(update={"tolerance": tolerance})
    deciding.federation = deciding.federation.model_copy(update={"training": training})
    deciding.register("a" * 16, {"auc": 0.7})
    comparison = comparison_of(shift, REFERENCE)
    decision = interval_gate(deciding, "binary", comparison, "a" * 16)  # type: ignore[arg-type]
    assert decision["promote"] is promoted
    gain = decision["gain"]
    assert decision["detectable"] == pytest.approx(2.8 / 1.96 * (gain["high"] - gain["low"]) / 2)
    assert (
        f"{words}; these rows detect a difference of {decision['detectable']:.4f}"
        in (decision["why"])
    )
    assert f"version {'a' * 16}, the best so far, on the same rows" in decision["why"]


def test_where_rows_are_not_the_same_a_recorded_value_stands_for_the_reference(
    deciding: Deciding,
) -> None:
    deciding.register("a" * 16, {"auc": 0.99})
    comparison = comparison_of(0.0, ALONE)
    decision = interval_gate(deciding, "binary", comparison, "a" * 16)  # type: ignore[arg-type]
    assert (decision["promote"], decision["value"]) == (False, 0.99)
    assert "on its own held-out rows" in decision["why"]
    deciding.registry.register("b" * 16, {"evaluation.json": b'{"metrics": {}}'})
    left = interval_gate(deciding, "binary", comparison, "b" * 16)  # type: ignore[arg-type]
    assert not left["promote"]
    assert "promote one by hand" in left["why"]


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_no_model_is_promoted_whose_metric_is_undefined(
    deciding: Deciding, task: metrics.Task
) -> None:
    label, score = np.ones(50), np.linspace(0.2, 0.9, 50)
    comparison = Comparison(task, label, {NEW: score, ALONE: score / 2, REFERENCE: score / 3})
    metric = metrics.main_metric(task)
    for reference in (None, name(1)):
        found = interval_gate(deciding, task, comparison, reference)  # type: ignore[arg-type]
        assert (found["promote"], found["new"], found["gain"]) == (False, None, None)
        assert found["why"] == f"{metric} is undefined: all held-out rows have one label"
    found = private_gate(deciding, task, comparison.evaluated(NEW), None, None)  # type: ignore[arg-type]
    assert (found["promote"], found["new"]) == (False, None)

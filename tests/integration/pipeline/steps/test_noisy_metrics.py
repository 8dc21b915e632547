"""A model that may be shared together with how good it is: metrics and gate with noise."""

import json
from typing import Any

import pytest

from opboost_ops.config.federation import Label
from opboost_ops.errors import BudgetError, ContractError
from opboost_ops.learning import metrics
from opboost_ops.pipeline.evaluation.gate import private_gate
from opboost_ops.pipeline.inputs.model_columns import LABEL
from opboost_ops.pipeline.stage import Home
from tests.commands import printed_json
from tests.federation import FIRST_RUN, SECOND_RUN, Workspace
from tests.integration.pipeline.steps.test_dpboost_runs import declare, ledger, private
from tests.integration.pipeline.steps.test_interval_gate import Deciding


def noisy(data: dict[str, Any]) -> None:
    private(data)
    data["training"]["private"]["metrics_epsilon"] = 0.5


@pytest.fixture
def federation(fresh: Workspace) -> Workspace:
    return declare(fresh, noisy)


def exact_metrics(workspace: Workspace) -> dict[str, float]:
    home = Home(workspace.home("credit"))
    truth = home.table("holdout_frame").column(LABEL).to_numpy()
    prediction = home.table("predictions").column("desensitised").to_numpy()
    return metrics.evaluate("binary", truth, prediction)


def test_nothing_exact_of_held_out_rows_leaves(federation: Workspace) -> None:
    summaries = federation.all()
    exact = exact_metrics(federation)
    shown = summaries["credit.evaluate"]["metrics"]
    assert {mode: set(found) for mode, found in shown.items()} == {
        "federated_desensitised": {"accuracy"}
    }
    files = federation.files("credit", "models", "credit_scoring", federation.run)
    card = json.loads(files["card.json"])
    assert card["metrics"] == shown
    assert card["importance"] == []
    words = " ".join(card["private"])
    assert "epsilon 0.5, 1 for a row replaced" in words
    assert "Not covered: metrics" not in words
    # To the last digit an exact figure would be found in what is kept of the model. A round one, as
    # the model is random, cannot be told from a declared number.
    for name in ("card.json", "evaluation.json", "card.html"):
        text = files[name].decode()
        assert '"auc"' not in text
        if len(str(exact["auc"])) > len("0.1234"):
            assert str(exact["auc"]) not in text
            assert f"{exact['auc']:.4f}" not in text

    lines = ledger(federation, "credit")
    charged = [(r.kind, r.epsilon) for r in lines if r.account == "model"]
    assert charged == [("model", 3.0), ("metrics", 0.5)]
    assert not any("held-out rows" in r.discloses for r in lines if r.account == "exact")
    (models,) = printed_json("ledger", "show", federation.folder / "credit")["models"]
    assert (models["epsilon"], models["trainings"]) == (3.5, 1)

    # Cleared, the same metrics at no further cost.
    again = federation.step("credit", "evaluate")
    assert again["metrics"] == shown
    assert len(ledger(federation, "credit")) == len(lines)

    # A second run compares itself with the best so far, with noise: both for one epsilon.
    second = federation.copy(federation.folder.parent / "second", SECOND_RUN)
    second.all()
    gate = second.home_json("credit", "gate")
    assert gate["metric"] == "accuracy"
    assert "(with noise)" in gate["why"]
    # Two values share 0.5, so each has noise of a deviation of sqrt(2) x 4 rows.
    error = 2**0.5 * 2**0.5 * 4 / second.home_json("credit", "evaluation")["rows"]
    assert gate["detectable"] == pytest.approx(2.8 * error)
    assert f"these rows detect a difference of {gate['detectable']:.4f}" in gate["why"]
    drawn = json.loads((second.home("credit") / "drawn_metrics.jsonl").read_bytes())
    assert len(drawn["sums"]) == 2
    charged = [r.epsilon for r in ledger(second, "credit") if r.kind == "metrics"]
    assert charged == [0.5, 0.5]


def test_a_budget_and_another_draw_refuse_before_anything_is_told(federation: Workspace) -> None:
    federation.until("evaluate", "credit")
    federation.declare("credit/policy.yaml", model_budget={"epsilon": 6.5})
    with pytest.raises(BudgetError, match=r"model_budget\.epsilon is 6\.5"):
        federation.step("credit", "evaluate")
    assert not (federation.home("credit") / "evaluation.json").exists()
    federation.declare("credit/policy.yaml", model_budget={"epsilon": 7.0})
    federation.step("credit", "evaluate")
    drawn = federation.home("credit") / "drawn_metrics.jsonl"
    line = json.loads(drawn.read_bytes())
    drawn.write_text(json.dumps({**line, "of": "0" * 64}) + "\n")
    with pytest.raises(ContractError, match="Trigger a new run"):
        federation.step("credit", "evaluate")


@pytest.mark.parametrize(("mse", "promoted"), [(3.9, True), (4.89, True), (4.92, False)])
def test_numbers_are_compared_by_their_error_in_units_of_the_bounds(
    federation: Workspace, mse: float, promoted: bool
) -> None:
    declared = federation.declared
    label = Label(column="default", task="regression", bounds=(0.0, 6.0))
    credit = declared.parties["credit"].model_copy(update={"label": label})
    training = declared.training.model_copy(update={"tolerance": 0.1})
    changed = declared.model_copy(
        update={"parties": {**declared.parties, "credit": credit}, "training": training}
    )
    deciding = Deciding(changed, federation.site("credit"))
    deciding.register(FIRST_RUN, {"mse": 4.0})
    # A tenth of the greatest variance that a label in [0, 6] can have: 0.9.
    decision = private_gate(deciding, "regression", {"mse": mse}, None, FIRST_RUN)  # type: ignore[arg-type]
    assert (decision["promote"], decision["value"]) == (promoted, 4.0)
    assert f"is {'not worse' if promoted else 'worse'} than" in decision["why"]


def version(number: int) -> str:
    return f"{number:016d}"

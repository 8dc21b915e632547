"""Parameters, objectives, weights and tuning in the file: every fault, with what applies."""

from typing import Any

import pytest

from opboost_ops.config.loading import parse_federation
from opboost_ops.config.parameters import ALLOWED, ELSEWHERE, parameter_fault
from opboost_ops.errors import ConfigError
from tests.unit.config.test_agreement import data
from tests.unit.config.test_horizontal_file import good


def faults(training: dict[str, Any], task: str = "binary", **more: Any) -> str:
    made = data(training=training, **more)
    made["parties"]["credit"]["label"]["task"] = task
    with pytest.raises(ConfigError) as raised:
        parse_federation(made, "federation.yaml")
    return str(raised.value)


def test_all_faults_of_parameters_come_at_once() -> None:
    text = faults(
        {
            "parameters": {
                "num_leavs": 3,
                "num_leaves": 9,
                "min_data_in_leaf": 1.5,
                "feature_fraction": 0,
                "lambda_l1": "much",
                "extra_trees": 1,
                "bagging_fraction": 0.5,
                "max_depth": 3,
                "min_child_samples": 3,
                "linear_tree": True,
                "alpha": 0.5,
                "monotone_constraints": {"bank.kind": 1, "bank.wealth": 1, "bank.income": 2},
            }
        }
    )
    for line in (
        "num_leavs: is not a parameter of LightGBM that is offered (did you mean num_leaves?)",
        "num_leaves: is 9, and a tree of depth 3 has at most 8 (declare training.depth of 4",
        "min_data_in_leaf: is not a whole number of 1 or more",
        "feature_fraction: is not a number above 0, and at most 1",
        "lambda_l1: is not a number of 0 or more",
        "extra_trees: is not one of true, false",
        "bagging_fraction: does nothing without bagging_freq",
        "max_depth: is set by another entry (declare training.depth)",
        "min_child_samples: is not LightGBM's own name (write min_data_in_leaf)",
        "linear_tree: is not offered",
        "alpha: is for objective huber or quantile",
        "bank.kind: is nominal",
        "bank.wealth: names no feature",
        "bank.income: is not a direction",
    ):
        assert line in text, line


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, None, [1], {"a": 1}, "0.5"])
def test_no_such_value_is_a_penalty(value: Any) -> None:
    assert "lambda_l2: is not a number" in faults({"parameters": {"lambda_l2": value}})


@pytest.mark.parametrize(
    ("training", "line"),
    [
        ({"num_leaves": 7}, "declare it under training.parameters: num_leaves"),
        ({"min_child_samples": 7}, "declare it under training.parameters: min_data_in_leaf"),
        ({"trainer": "xgboost", "subsample": 1}, "declare it under training.parameters: subsample"),
        ({"n_estimators": 7}, "declare training.trees"),
        ({"metric": "auc"}, "declare training.objective"),
        ({"tolerancee": 1}, "did you mean tolerance?"),
        ({"lambda_l1": 1}, "declare it under training.parameters: lambda_l1"),
        ({"lambda_l2": 1}, "declare it under training.parameters: lambda_l2"),
    ],
)
def test_the_message_offers_what_applies(training: dict[str, Any], line: str) -> None:
    assert line in faults(training)


@pytest.mark.parametrize("trainer", ["lightgbm", "xgboost", "dpboost", "federboost"])
def test_no_key_is_offered_that_does_not_apply(trainer: str) -> None:
    made = good() if trainer == "federboost" else data()
    made["training"] = {**made.get("training", {}), "trainer": trainer, "zzz": 1}
    with pytest.raises(ConfigError) as raised:
        parse_federation(made, "f")
    offered = str(raised.value).split("choose one of ")[1].split(")")[0].split(", ")
    values = {"parameters": {"max_delta_step": 1}, "weight_column": "w",
              "early_stopping": 20, "tuning": 30}  # fmt: skip
    del made["training"]["zzz"]
    for key, value in values.items():
        text = ""
        try:
            parse_federation({**made, "training": {**made["training"], key: value}}, "f")
        except ConfigError as error:
            text = str(error)
        assert (f"training.{key}" in text) is (key not in offered), text


def test_what_is_said_of_other_names_is_allowed() -> None:
    for trainer, allowed in ALLOWED.items():
        for name in ("min_child_samples", "reg_lambda", "reg_alpha", "max_leaf_nodes"):
            remedy = parameter_fault(trainer, name)[1]
            word = remedy.removeprefix("write ")
            assert word in allowed or remedy.startswith(("there are", "did you mean"))
        assert not set(ELSEWHERE) & set(allowed)


@pytest.mark.parametrize(
    ("training", "task", "line"),
    [
        ({"objective": "l1"}, "binary", "is l1, and the label's task is binary"),
        ({"objective": "binary"}, "regression", "choose one of l2, l1, huber"),
        ({"objective": "quantile"}, "regression", "alpha: is required of objective quantile"),
        (
            {"objective": "quantile", "parameters": {"alpha": 1.5}},
            "regression",
            "is not a quantile",
        ),
        (
            {"objective": "l1", "parameters": {"monotone_constraints": {"bank.income": 1}}},
            "regression",
            "is ignored by objective l1",
        ),
        (
            {"parameters": {"monotone_constraints": {"bank.income": 1}}},
            "multiclass",
            "a score per class",
        ),
        ({"weight_column": "y"}, "binary", "training.weight_column: is the label"),
        ({"weight_column": "id"}, "binary", "training.weight_column: is the ID column"),
        ({"trainer": "xgboost", "parameters": {"max_bin": 9}}, "binary", "ranks need one each"),
    ],
)
def test_faults_in_context(training: dict[str, Any], task: str, line: str) -> None:
    assert line in faults(training, task)


READ_OFF = {
    "parameters": {"num_leaves": 4},
    "objective": "binary",
    "weight_column": "w",
    "early_stopping": 20,
    "tuning": 2,
}


@pytest.mark.parametrize("key", READ_OFF)
def test_private_and_horizontal_learning_take_none(key: str) -> None:
    private = {"trainer": "dpboost", "private": {"epsilon": 1.0}, key: READ_OFF[key]}
    assert f"training.{key}: is not for dpboost: " in faults(private)
    summed = good()
    for noise in ({}, {"private": {"epsilon": 1.0, "delta": 1e-6}}):
        made = {**summed, "training": {**summed["training"], **noise, key: READ_OFF[key]}}
        with pytest.raises(ConfigError, match=f"training.{key}: is not for federboost: "):
            parse_federation(made, "federation.yaml")


def test_a_plan_is_the_file_again() -> None:
    training = {
        "parameters": {"lambda_l2": 1.0, "monotone_constraints": {"bank.income": 1}},
        "tuning": 2,
        "early_stopping": 3,
    }
    declared = parse_federation(data(training=training), "f")
    again = parse_federation(declared.model_dump(mode="json"), "plan")
    assert again.model_dump(mode="json") == declared.model_dump(mode="json")


def test_a_delta_of_0_is_epsilon_alone() -> None:
    def trained(**private: Any) -> Any:
        training = {"trainer": "dpboost", "private": {"epsilon": 1.0, **private}}
        made = data(training=training)
        made["parties"]["credit"]["label"]["classes"] = [0, 1]
        return parse_federation(made, "federation.yaml").training

    for splits in ({}, {"splits": "random"}):
        assert trained(**splits, delta=0) == trained(**splits)
    noisy = trained(splits="random", delta=1e-6)
    assert noisy.trees > trained(splits="random").trees


@pytest.mark.parametrize(
    ("training", "line"),
    [
        ({"denoise": "joint"}, "training.denoise: makes a model for clear rows"),
        ({"denoise": "joint", "trainer": "xgboost"}, "training.denoise: is not for xgboost"),
        (
            {"denoise": "auto", "trainer": "dpboost", "private": {"epsilon": 1.0}},
            "training.denoise: is not for dpboost",
        ),
        (
            {"trainer": "dpboost", "private": {"epsilon": 2.0, "delta": 1e-6}},
            "training.private: ",
        ),
        (
            {"trainer": "dpboost", "private": {"epsilon": 2.0, "delta": 0.5, "splits": "random"}},
            "training.private.delta: ",
        ),
        (
            {"trainer": "dpboost", "private": {"epsilon": 0.0, "delta": 1e-6, "splits": "random"}},
            "training.private.epsilon: ",
        ),
    ],
)
def test_what_promises_nothing_or_cannot_be_is_refused(training: dict[str, Any], line: str) -> None:
    assert line in faults(training)


@pytest.mark.parametrize(
    "training", [{"trainer": "dpboost", "private": {"epsilon": 1.0}}, {"denoise": "joint"}]
)
def test_trainers_that_take_no_missing_values_keep_no_unmatched_rows(
    training: dict[str, Any],
) -> None:
    assert "alignment.overlap: " in faults(training, alignment={"overlap": "left"})


@pytest.mark.parametrize(
    "declared",
    [
        {"calibration": "isotonic"},
        {"interval": 0.9},
        {"reasons": 3},
    ],
)
def test_what_would_be_read_off_private_rows_is_refused_with_that_reason(
    declared: dict[str, Any],
) -> None:
    private = {"trainer": "dpboost", "private": {"epsilon": 1.0, "metrics_epsilon": 0.5}}
    text = faults(private, scoring=declared)
    assert f"scoring.{next(iter(declared))}" in text
    assert "training.private promises noise" in text

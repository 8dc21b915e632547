"""Values give what ranks give, to the bit, whatever a booster is told to do."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opboost_ops.config.parameters import LIGHTGBM, XGBOOST
from opboost_ops.learning.boosters.backend import Stop
from opboost_ops.learning.boosters.trainer import Frame, Parameters, model_of, predict, train
from tests.unit.learning.boosters.rank_models import TRAINERS, federations, fit

REGRESSION = ("l2", "l1", "huber", "quantile", "poisson", "tweedie")

SHARES = st.sampled_from([0.3, 0.7, 1.0])
PENALTIES = st.sampled_from([0.0, 0.01, 1.0])
FLAGS = st.booleans()

#: Every allowed parameter but those of an objective alone, with values that matter on small tables.
GRID: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "lightgbm": {
        "num_leaves": st.integers(2, 16),
        "min_data_in_leaf": st.integers(1, 30),
        "min_sum_hessian_in_leaf": PENALTIES,
        "feature_fraction": SHARES,
        "feature_fraction_bynode": SHARES,
        "bagging_fraction": SHARES,
        "bagging_freq": st.integers(0, 3),
        "lambda_l1": PENALTIES,
        "lambda_l2": PENALTIES,
        "min_gain_to_split": PENALTIES,
        "max_bin": st.sampled_from([2, 15, 63, 255, 300]),
        "max_delta_step": PENALTIES,
        "extra_trees": FLAGS,
        "path_smooth": PENALTIES,
        "monotone_constraints_method": st.sampled_from(["basic", "intermediate", "advanced"]),
        "cat_smooth": PENALTIES,
        "cat_l2": PENALTIES,
        "max_cat_threshold": st.integers(1, 4),
    },
    "xgboost": {
        "max_leaves": st.integers(0, 16),
        "grow_policy": st.sampled_from(["depthwise", "lossguide"]),
        "min_child_weight": PENALTIES,
        "subsample": SHARES,
        "colsample_bytree": SHARES,
        "colsample_bylevel": SHARES,
        "colsample_bynode": SHARES,
        "lambda": PENALTIES,
        "alpha": PENALTIES,
        "gamma": PENALTIES,
        "max_delta_step": PENALTIES,
    },
}

#: Those of an objective.
OF_OBJECTIVE: dict[tuple[str, str], dict[str, st.SearchStrategy[Any]]] = {
    ("lightgbm", "binary"): {"scale_pos_weight": st.sampled_from([0.1, 3.0])},
    ("lightgbm", "multiclass"): {},
    ("lightgbm", "huber"): {"alpha": st.sampled_from([0.1, 2.0])},
    ("lightgbm", "quantile"): {"alpha": st.sampled_from([0.1, 0.9])},
    ("lightgbm", "poisson"): {"poisson_max_delta_step": st.sampled_from([0.1, 0.9])},
    ("lightgbm", "tweedie"): {"tweedie_variance_power": st.sampled_from([1.1, 1.9])},
    ("xgboost", "binary"): {"scale_pos_weight": st.sampled_from([0.1, 3.0])},
    ("xgboost", "huber"): {"huber_slope": st.sampled_from([0.1, 2.0])},
    ("xgboost", "quantile"): {"quantile_alpha": st.sampled_from([0.1, 0.9])},
    ("xgboost", "tweedie"): {"tweedie_variance_power": st.sampled_from([1.1, 1.9])},
}


def test_the_grid_has_every_parameter() -> None:
    for trainer, allowed in (("lightgbm", LIGHTGBM), ("xgboost", XGBOOST)):
        special = {name for (t, _), of in OF_OBJECTIVE.items() if t == trainer for name in of}
        assert {*GRID[trainer], *special} == {*allowed} - {"is_unbalance"}


@st.composite
def trainings(draw: st.DrawFn, trainer: str) -> tuple[dict, str, dict[str, Any], dict[str, Any]]:
    case = draw(federations())
    objective = draw(st.sampled_from(["binary", "multiclass", *REGRESSION]))
    possible = {**GRID[trainer], **OF_OBJECTIVE.get((trainer, objective), {})}
    names = draw(st.lists(st.sampled_from(sorted(possible)), max_size=6, unique=True))
    own = {name: draw(possible[name]) for name in names}
    if own.get("path_smooth"):
        own["min_data_in_leaf"] = max(own.get("min_data_in_leaf", 2), 2)
    if (trainer, objective) == ("lightgbm", "binary") and "scale_pos_weight" not in own:
        own["is_unbalance"] = draw(FLAGS)
    directed = objective not in ("multiclass", "l1", "quantile")
    more: dict[str, Any] = {
        "monotone": {"b.é0": draw(st.sampled_from([-1, 1]))} if directed and draw(FLAGS) else {},
        "stop": Stop(2) if draw(FLAGS) else None,
        "weighted": draw(FLAGS),
    }
    if not more["monotone"]:
        # No declaration may have it alone: LightGBM 4.7 crashes on "advanced" without a direction.
        own.pop("monotone_constraints_method", None)
    return case, objective, own, more


@pytest.mark.parametrize("trainer", TRAINERS)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_predictions_are_the_same_to_the_bit(trainer: str, data: st.DataObject) -> None:
    case, objective, own, more = data.draw(trainings(trainer))
    fitted = fit(trainer, case, objective, own, **more)
    on_ranks = predict(fitted.partial, fitted.on_ranks)
    assert on_ranks.tobytes() == predict(fitted.model, fitted.on_values).tobytes()
    # Thresholds lie between neighbours in the table, not merely in the domain: gaps are halved.
    used = model_of(fitted.model).numeric_splits()
    for i, values in enumerate(case["others"]):
        present = np.unique(values).tolist()
        midpoints = {(a + b) / 2 for a, b in itertools.pairwise(present)}
        assert set(used.get(f"b.é{i}", [])) <= midpoints


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("objective", ["binary", "l2", "huber", "poisson"])
@pytest.mark.parametrize("direction", [1, -1])
def test_a_direction_is_kept_on_values(trainer: str, objective: str, direction: int) -> None:
    """The label falls and rises with the feature; the materialised model goes one way alone."""
    rng = np.random.RandomState(4)
    present = np.array([-7, -6, -2, 0, 1, 5, 6, 20, 21, 30])
    case = {"own": rng.normal(size=(600, 2)), "codes": rng.randint(0, 3, 600).astype(float),
            "others": [rng.choice(present, 600), rng.randint(1, 9, 600)], "rng": rng}  # fmt: skip
    case["others"][1] = (case["others"][0] // 9) ** 2 + case["others"][1]
    free, bound = (
        fit(trainer, case, objective, monotone=monotone).model
        for monotone in ({}, {"b.é0": direction})
    )
    grid = np.arange(-10, 35)
    for row in range(0, 600, 60):
        rows = np.column_stack([case["own"], case["codes"], *case["others"]])[[row] * len(grid)]
        rows[:, 3] = grid
        assert (np.diff(predict(bound, rows)) * direction >= 0).all()
    if direction == -1:
        # Without it the model does rise somewhere: the test can fail.
        assert (np.diff(predict(free, rows)) > 0).any()


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_weight_is_that_many_rows(trainer: str) -> None:
    rng = np.random.RandomState(2)
    ranks, label = rng.randint(1, 20, 300), rng.normal(size=300)
    weight = rng.randint(1, 4, 300)
    least = {"lightgbm": {"min_data_in_leaf": 1}, "xgboost": {}}[trainer]
    parameters = Parameters("regression", 0, 20, 0.3, 3, 0, 1, trainer, own=least)  # type: ignore[arg-type]
    weighted = Frame(("b.x",), ranks.astype(float)[:, None], (), ("b.x",), weight=weight * 1.0)
    times = np.repeat(np.arange(300), weight)
    repeated = Frame(("b.x",), ranks[times].astype(float)[:, None], (), ("b.x",))
    grid = np.arange(1.0, 20.0)[:, None]
    one = predict(train(weighted, label, parameters), grid)
    other = predict(train(repeated, label[times], parameters), grid)
    np.testing.assert_allclose(one, other, atol=1e-4)


def test_early_stopping_ends_where_noise_begins() -> None:
    rng = np.random.RandomState(3)
    ranks = rng.randint(1, 10, (800, 2)).astype(float)
    label = (ranks[:, 0] > 5) + rng.normal(size=800)
    frame = Frame(("b.x", "b.y"), np.asfortranarray(ranks), (), ("b.x", "b.y"))
    for trainer in ("lightgbm", "xgboost"):
        parameters = Parameters("regression", 0, 500, 0.3, 5, 0, 1, trainer, stop=Stop(5))  # type: ignore[arg-type]
        short = train(frame, label, parameters)
        trees = short.count("Tree=") if trainer == "lightgbm" else short.count('"base_weights"')
        assert 1 <= trees < 60

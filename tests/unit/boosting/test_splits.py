"""Split replacement: to the bit, on every task, whatever the tables look like."""

import itertools
import re
from pathlib import Path

import lightgbm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opboost_ops.boosting import splits
from opboost_ops.boosting.lightgbm_text import TextModel
from opboost_ops.boosting.trainer import Frame, Parameters, predict, train
from opboost_ops.domain import Domain
from opboost_ops.errors import ContractError
from opboost_ops.mechanisms import BucketResponse

LOWER, UPPER = 1, 40
TASKS = ["binary", "multiclass", "regression"]


def dense(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Dense ranks from 1, and the value of each; NumPy's unique is the specification."""
    table, inverse = np.unique(values, return_inverse=True)
    return inverse.reshape(-1) + 1, table


@st.composite
def federations(draw: st.DrawFn) -> dict:
    """Own numbers with NaN, own categories with NaN, and others' values with ties and gaps.

    Domains lie above, across and below zero, where LightGBM has a bin of its own.
    """
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.RandomState(seed)
    rows = draw(st.integers(40, 300))
    own = rng.normal(size=(rows, 2))
    own[rng.random_sample(own.shape) < draw(st.sampled_from([0.0, 0.2]))] = np.nan
    codes = rng.randint(0, 6, size=rows).astype(float)
    codes[rng.random_sample(rows) < 0.1] = np.nan
    others = []
    shift = draw(st.sampled_from([0, -20, -41, -1]))
    for _ in range(draw(st.integers(1, 4))):
        present = draw(st.lists(st.integers(LOWER, UPPER), min_size=1, max_size=40, unique=True))
        others.append(rng.choice(present, size=rows) + shift)
    return {"own": own, "codes": codes, "others": others, "seed": seed, "rng": rng, "rows": rows}


def trained(case: dict, task: str) -> tuple[str, str, np.ndarray, np.ndarray]:
    """Partial and materialised model, rows on ranks and rows on values."""
    rows, rng = case["rows"], case["rng"]
    ranks, tables = zip(*map(dense, case["others"]), strict=True)
    names = ("a.x", "a.y", "a.kind", *(f"b.f{i}" for i in range(len(ranks))))
    on_ranks = np.column_stack([case["own"], case["codes"], *ranks]).astype(float)
    on_values = np.column_stack([case["own"], case["codes"], *case["others"]]).astype(float)
    signal = sum(np.asarray(v, float) for v in case["others"]) / UPPER + np.nan_to_num(
        case["own"][:, 0]
    )
    noisy = signal + 0.3 * rng.normal(size=rows)
    if task == "regression":
        label = noisy
    else:
        classes = 2 if task == "binary" else 3
        label = np.searchsorted(np.quantile(noisy, np.arange(1, classes) / classes), noisy)
        label[:classes] = range(classes)
    frame = Frame(names, np.asfortranarray(on_ranks), ("a.kind",), names[3:])
    parameters = Parameters(
        task=task,  # type: ignore[arg-type]
        classes=0 if task == "regression" else int(label.max()) + 1,
        trees=8,
        learning_rate=0.3,
        depth=4,
        seed=0,
        threads=1,
    )
    partial = train(frame, label.astype(float), parameters)
    used = splits.used_splits(partial, names[3:])
    by_name = dict(zip(names[3:], tables, strict=True))
    values = {
        name: dict(zip(asked, splits.split_values(asked, by_name[name]), strict=True))
        for name, asked in used.items()
    }
    model = splits.materialise(partial, values, dict.fromkeys(names[3:], (LOWER, UPPER)))
    return partial, model, on_ranks, on_values


@pytest.mark.parametrize("task", TASKS)
@given(case=federations())
@settings(max_examples=100, deadline=None)
def test_predictions_are_the_same_to_the_bit(task: str, case: dict) -> None:
    partial, model, on_ranks, on_values = trained(case, task)
    before, after = predict(partial, on_ranks), predict(model, on_values)
    assert before.tobytes() == after.tobytes()
    raw = [lightgbm.Booster(model_str=m).predict(x, raw_score=True)
           for m, x in ((partial, on_ranks), (model, on_values))]  # fmt: skip
    assert raw[0].tobytes() == raw[1].tobytes()


@given(case=federations())
@settings(max_examples=100, deadline=None)
def test_every_threshold_is_a_midpoint_of_two_released_values(case: dict) -> None:
    """Neighbours in the table, not merely in the domain: gaps are halved."""
    _, model, _, _ = trained(case, "regression")
    used = TextModel.parse(model).numeric_splits()
    for i, values in enumerate(case["others"]):
        present = np.unique(values).tolist()
        midpoints = {(a + b) / 2 for a, b in itertools.pairwise(present)}
        assert set(used.get(f"b.f{i}", [])) <= midpoints


def case_of(others: list[np.ndarray], seed: int = 0) -> dict:
    rng = np.random.RandomState(seed)
    rows = len(others[0])
    return {"own": rng.normal(size=(rows, 2)), "codes": rng.randint(0, 3, size=rows).astype(float),
            "others": others, "seed": seed, "rng": rng, "rows": rows}  # fmt: skip


@pytest.mark.parametrize("task", TASKS)
def test_the_file_loads_in_stock_lightgbm(task: str, tmp_path: Path) -> None:
    case = case_of([np.arange(400) % 40 + 1, (np.arange(400) * 7) % 9 + 1])
    _, model, _, on_values = trained(case, task)
    path = tmp_path / "model.txt"
    path.write_text(model)
    booster = lightgbm.Booster(model_file=str(path))
    assert booster.feature_name() == ["a.x", "a.y", "a.kind", "b.f0", "b.f1"]
    assert booster.num_trees() == 8 * (3 if task == "multiclass" else 1)
    assert booster.predict(on_values).tobytes() == predict(model, on_values).tobytes()
    again = lightgbm.Booster(model_str=booster.model_to_string())
    assert again.predict(on_values).tobytes() == booster.predict(on_values).tobytes()


def test_training_on_ranks_is_training_on_values() -> None:
    """Many ranks, so that stock binning of either would differ."""
    rng = np.random.RandomState(3)
    values = rng.choice(np.arange(1, 5000), size=3000)
    ranks, table = dense(values)
    label = np.sin(values / 400) + 0.1 * rng.normal(size=3000)
    parameters = Parameters("regression", 0, 20, 0.2, 4, 0, 1)
    models = []
    for column in (ranks, table[ranks - 1]):
        matrix = column.astype(float)[:, None]
        frame = Frame(("b.x",), matrix, (), ("b.x",))
        models.append(predict(train(frame, label, parameters), matrix))
    assert models[0].tobytes() == models[1].tobytes()


def test_more_than_255_ranks_keep_a_bin_each() -> None:
    """A step between two ranks is found exactly there, wherever it is."""
    ranks = np.arange(1, 2001)
    for step in (37, 1234, 1961):
        label = (ranks > step).astype(float)
        frame = Frame(("b.x",), ranks.astype(float)[:, None], (), ("b.x",))
        text = train(frame, label, Parameters("regression", 0, 1, 0.3, 1, 0, 1))
        assert splits.used_splits(text, ["b.x"]) == {"b.x": [step]}


@pytest.mark.parametrize("task", TASKS)
def test_trees_without_any_split(task: str) -> None:
    label = np.arange(30.0) % 3 if task == "multiclass" else np.arange(30.0) % 2
    frame = Frame(("b.x",), np.ones((30, 1)), (), ("b.x",))
    parameters = Parameters(task, 3 if task == "multiclass" else 2, 3, 0.1, 3, 0, 1)  # type: ignore[arg-type]
    text = train(frame, label, parameters)
    assert splits.used_splits(text, ["b.x"]) == {}
    model = splits.materialise(text, {}, {"b.x": (LOWER, 12_345_678)})
    assert f"feature_infos=[{LOWER}:12345678]\n" in model
    on_values = np.full((30, 1), 7.0)
    assert predict(model, on_values).tobytes() == predict(text, frame.matrix).tobytes()


@pytest.mark.parametrize(("rows", "features"), [(0, 1), (30, 0), (0, 0)])
def test_nothing_to_learn_from(rows: int, features: int) -> None:
    frame = Frame(("b.x",)[:features], np.ones((rows, features)), (), ())
    with pytest.raises(ContractError, match="no row or no feature"):
        train(frame, np.ones(rows), Parameters("regression", 0, 3, 0.1, 3, 0, 1))


def test_the_text_is_deterministic_and_tells_nothing_local() -> None:
    case = case_of([np.arange(400) % 40 + 1])
    first, second = trained(case_of(case["others"]), "binary"), trained(case, "binary")
    assert first[:2] == second[:2]
    for text in first[:2]:
        assert not re.search(r"num_threads|\[data:|input_model|output_model|tmp", text)


@pytest.mark.parametrize("task", TASKS)
def test_the_text_is_stock_lightgbms(task: str) -> None:
    """To the byte: what is asked of LightGBM is what it always was, whatever other boosters do."""
    rng = np.random.RandomState(0)
    matrix = np.column_stack([rng.normal(size=900), rng.randint(1, 300, size=900)]).astype(float)
    label = np.searchsorted((0, 1), matrix[:, 0] + matrix[:, 1] / 300).astype(float)
    label = np.minimum(label, 1) if task == "binary" else label
    asked = {"objective": task, "learning_rate": 0.3, "max_depth": 4, "num_leaves": 16,
             "max_bin_by_feature": [255, 301], "max_bin": 301, "min_data_in_bin": 1,
             "bin_construct_sample_cnt": 900, "feature_pre_filter": False, "deterministic": True,
             "force_col_wise": True, "seed": 5, "num_threads": 1, "verbosity": -1}  # fmt: skip
    if task == "multiclass":
        asked["num_class"] = 3
    names = ["a.x", "b.x"]
    data = lightgbm.Dataset(matrix, label=label, feature_name=names, params=asked)
    stock = lightgbm.train(asked, data, num_boost_round=9).model_to_string()
    local = r"(?m)^(tree_sizes=|\[(num_threads|data|valid|output_model|input_model):).*\n"
    frame = Frame(("a.x", "b.x"), matrix, (), ("b.x",))
    parameters = Parameters(task, 3 if task == "multiclass" else 0, 9, 0.3, 4, 5, 1)  # type: ignore[arg-type]
    assert train(frame, label, parameters) == re.sub(local, "", stock)


def test_the_files_ranges_are_the_declared_ones() -> None:
    _, model, _, _ = trained(case_of([np.arange(400) % 7 + 3]), "binary")
    infos = re.search(r"^feature_infos=(.*)$", model, re.M)
    assert infos is not None
    assert infos.group(1).split(" ")[3] == f"[{LOWER}:{UPPER}]"


def test_categorical_thresholds_are_left_alone() -> None:
    """A category's bit set index looks like a rank; replacing it would be silent nonsense."""
    rng = np.random.RandomState(1)
    codes = rng.randint(0, 6, size=600).astype(float)
    ranks = rng.randint(1, 8, size=600).astype(float)
    label = np.isin(codes, (1, 4)) * 2.0 + (ranks > 3)
    frame = Frame(("a.kind", "b.x"), np.column_stack([codes, ranks]), ("a.kind",), ("b.x",))
    text = train(frame, label, Parameters("regression", 0, 10, 0.3, 3, 0, 1))
    model = TextModel.parse(text)
    assert model.split_counts()["a.kind"] > 0
    assert "a.kind" not in model.numeric_splits()
    asked = splits.used_splits(text, ["b.x"])["b.x"]
    table = np.array([2, 3, 5, 10, 20, 30, 31])
    values = dict(zip(asked, splits.split_values(asked, table), strict=True))
    done = splits.materialise(text, {"b.x": values}, {"b.x": (1, 40)})
    on_values = np.column_stack([codes, table[ranks.astype(int) - 1]])
    assert predict(done, on_values).tobytes() == predict(text, frame.matrix).tobytes()
    assert [line for line in done.split("\n") if line.startswith("cat_")] == [
        line for line in text.split("\n") if line.startswith("cat_")
    ]


def test_a_missing_split_value_is_an_error() -> None:
    partial, *_ = trained(case_of([np.arange(400) % 40 + 1]), "binary")
    used = splits.used_splits(partial, ["b.f0"])
    assert used["b.f0"]
    with pytest.raises(ContractError, match=r"b\.f0 has no value"):
        splits.materialise(partial, {}, {"b.f0": (LOWER, UPPER)})
    values = {rank: float(rank) for rank in used["b.f0"][1:]}
    with pytest.raises(ContractError, match=r"b\.f0 has no value"):
        splits.materialise(partial, {"b.f0": values}, {"b.f0": (LOWER, UPPER)})


def test_split_values() -> None:
    table = np.array([2, 3, 7, 10])
    assert splits.split_values([1, 2, 3], table) == [2.5, 5.0, 8.5]
    for rank in (0, -1, 4, 5):
        with pytest.raises(ContractError, match="outside the ranks"):
            splits.split_values([rank], table)


def test_a_split_between_buckets_lies_at_their_ends() -> None:
    """Not halfway between what they are released as: 4 lies in the second bucket, below 7.5."""
    channel = BucketResponse(epsilon=1, edges=(2, 3, 21)).channel(Domain(1, 30))
    assert channel.outputs.tolist() == [1, 2, 11, 25]
    table = channel.span(channel.outputs)
    assert split_values_of(table) == [1.5, 2.5, 20.5]
    # The bucket from 3 to 20 was never released.
    assert splits.split_values([2], table[[0, 1, 3]]) == [11.5]


def split_values_of(table: np.ndarray) -> list[float]:
    return splits.split_values(list(range(1, len(table))), table)


@pytest.mark.parametrize("text", ["", "no model", "tree\nversion=v4\n", '{"trees": []}'])
def test_a_text_that_is_no_model(text: str) -> None:
    with pytest.raises(ContractError, match="no LightGBM text model"):
        TextModel.parse(text)


def test_parsing_and_writing_changes_nothing() -> None:
    _, model, _, _ = trained(case_of([np.arange(400) % 40 + 1]), "multiclass")
    assert TextModel.parse(model).text() == model

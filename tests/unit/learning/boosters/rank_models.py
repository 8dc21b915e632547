"""Tables of random federations, and models of them on ranks and on values."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from opboost_ops.learning import splits
from opboost_ops.learning.boosters.backend import Rows, Stop
from opboost_ops.learning.boosters.trainer import Frame, Parameters, train

LOWER, UPPER = 1, 40
TASKS = ["binary", "multiclass", "regression"]
TRAINERS = ["lightgbm", "xgboost"]


def dense(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Dense ranks from 1, and the value of each; NumPy's unique is the specification."""
    table, inverse = np.unique(values, return_inverse=True)
    return inverse.reshape(-1) + 1, table


def rows_of(frame: Frame, label: np.ndarray, block: int = 700) -> Rows:
    """A frame as the table of a run: in blocks, its ranks in a byte, null where there is none."""
    columns: dict[str, Any] = {"label": label.astype(np.float32)}
    for name, column in zip(frame.names, frame.matrix.T, strict=True):
        kind = pa.uint8() if name in frame.ranked else pa.float64()
        columns[name] = pa.array(column, from_pandas=name in frame.ranked).cast(kind)
    if frame.weight is not None:
        columns["weight"] = frame.weight.astype(np.float32)
    table = pa.table(columns)
    blocks = [table.slice(begin, block) for begin in range(0, len(label), block)]
    weight = "" if frame.weight is None else "weight"
    return Rows(frame.rows(np.arange(0)), pa.concat_tables(blocks), "label", weight)


@st.composite
def federations(draw: st.DrawFn) -> dict:
    """Own numbers with NaN, own categories with NaN, and others' values with ties and gaps.

    Domains lie above, across and below zero, where LightGBM has a bin of its own.
    """
    rng = np.random.RandomState(draw(st.integers(0, 2**32 - 1)))
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
    return {"own": own, "codes": codes, "others": others, "rng": rng}


def fixed(others: list[np.ndarray] | None = None, rows: int = 400, seed: int = 0) -> dict:
    """The same tables in every run, with gaps in the values of the other party."""
    rng = np.random.RandomState(seed)
    own, codes = rng.normal(size=(rows, 2)), rng.randint(0, 6, size=rows).astype(float)
    own[::5, 1], codes[::7] = np.nan, np.nan
    if others is None:
        others = [rng.choice([1, 3, 4, 8, 9, 30], size=rows), rng.randint(1, 41, size=rows)]
    return {"own": own, "codes": codes, "others": others, "rng": rng}


@dataclass(frozen=True)
class Fitted:
    """A model before and after its splits are replaced, and the rows it is for."""

    partial: str
    model: str
    on_ranks: np.ndarray
    on_values: np.ndarray
    label: np.ndarray


def fit(
    trainer: str,
    case: dict,
    objective: str,
    own: Mapping[str, Any] | None = None,
    monotone: Mapping[str, int] | None = None,
    stop: Stop | None = None,
    weighted: bool = False,
    trees: int = 6,
) -> Fitted:
    """Train on ranks, twice, and put the values in."""
    rng = case["rng"]
    ranks, tables = zip(*map(dense, case["others"]), strict=True)
    others = tuple(f"b.é{i}" for i in range(len(ranks)))
    names = ("a.x", "a.y", "a.kind", *others)
    on_ranks = np.column_stack([case["own"], case["codes"], *ranks]).astype(float)
    on_values = np.column_stack([case["own"], case["codes"], *case["others"]]).astype(float)
    rows = len(on_values)
    signal = sum(np.asarray(v, float) for v in case["others"]) / UPPER
    noisy = signal + np.nan_to_num(case["own"][:, 0]) + 0.3 * rng.normal(size=rows)
    classes = {"binary": 2, "multiclass": 3}.get(objective, 0)
    label = noisy
    if classes:
        label = np.searchsorted(np.quantile(noisy, np.arange(1, classes) / classes), noisy)
        label[:classes] = range(classes)
    elif objective in ("poisson", "tweedie"):
        label = np.floor(np.exp(noisy - noisy.mean()))
        label[0] = 1.0
    label = label.astype(float)
    weight = rng.randint(0, 4, size=rows) + 0.5 if weighted else None
    frame = Frame(names, np.asfortranarray(on_ranks), ("a.kind",), others, weight=weight)
    parameters = Parameters(
        task=objective if classes else "regression",  # type: ignore[arg-type]
        classes=classes,
        trees=trees,
        learning_rate=0.3,
        depth=4,
        seed=0,
        threads=1,
        trainer=trainer,  # type: ignore[arg-type]
        objective="" if objective == "regression" else objective,
        own=own or {},
        monotone=monotone or {},
        stop=stop,
    )
    partial = train(frame, label, parameters)
    assert partial == train(frame, label, replace(parameters))
    model = splits.materialise(
        partial, split_values(partial, others, tables), dict.fromkeys(others, (LOWER, UPPER))
    )
    return Fitted(partial, model, on_ranks, on_values, label)


def split_values(
    partial: str, names: tuple[str, ...], tables: tuple[np.ndarray, ...]
) -> dict[str, dict[int, float]]:
    """What each party answers: the value of every rank that splits a feature."""
    by_name = dict(zip(names, tables, strict=True))
    return {
        name: dict(zip(asked, splits.split_values(asked, by_name[name]), strict=True))
        for name, asked in splits.used_splits(partial, names).items()
    }

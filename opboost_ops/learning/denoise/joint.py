"""Training on jointly sampled original values: from a frame to one model of the mean of two."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from opboost_ops.errors import ContractError
from opboost_ops.learning.boosters import trainer
from opboost_ops.learning.boosters.backend import Frame, Parameters, Tell, unheard
from opboost_ops.learning.boosters.lightgbm_backend import LOCAL
from opboost_ops.learning.boosters.lightgbm_text import TextModel
from opboost_ops.learning.denoise.classes import BLOCK, Classes, Draws, LatentRows
from opboost_ops.learning.denoise.rows import Rows, drawable, quantile_levels, rows_of
from opboost_ops.learning.denoise.starts import Chosen, Start, choose, grid
from opboost_ops.learning.tuning import predicted
from opboost_ops.mechanisms.channel import Channel

#: Fewest rows in a leaf, of each imputation: LightGBM's own default.
_LEAF = 20

#: Rows that the classes are fitted to; all of them are sampled.
FITTED_ROWS = 40_000

#: Imputations that are stacked, and at most so many rows of all: with many rows fewer draws of
#: each do. This bounds the memory: 8 bytes a cell of that stack, beside what training itself takes.
IMPUTATIONS, STACKED_ROWS = 5, 2_000_000

#: Groups of what own columns predict, and folds that predict it.
_GROUPS, _FOLDS = 5, 5

_LEAVES = ("leaf_value=", "internal_value=")

#: What each part's leaves are multiplied by; halving is exact in floats.
_HALF = 0.5


@dataclass(frozen=True, eq=False)
class Imputed:
    """Imputations one below the other.

    Attributes:
        frame: Training rows, as many times as there are imputations.
        label: Of them.
        times: How many imputations there are.
        chosen: The models that they were drawn from; none if nothing could be sampled.
    """

    frame: Frame
    label: np.ndarray
    times: int
    chosen: tuple[Chosen, ...]


def train(
    frame: Frame,
    label: np.ndarray,
    parameters: Parameters,
    channels: Mapping[str, Channel],
    seed: bytes,
    tell: Tell = unheard,
) -> str:
    """Train on original values, sampled given the release under its channels.

    With own columns the model is the even mixture of this and plain training: own columns may say
    more of the label than what is sampled, and then draws that follow the label mislead.

    Args:
        frame: Training rows.
        label: Numbers or class indices, shape (n,).
        parameters: How.
        channels: What released others' columns, by name.
        seed: Of all draws, 32 bytes.
        tell: Told after each boosting round of one model, then of the other.

    Returns:
        One LightGBM text model.
    """
    return learnt(
        imputed(frame, label, parameters, drawable(frame, channels), seed),
        parameters,
        lambda: trainer.train(frame, label, parameters, tell=tell),
        tell,
    )


def learnt(
    rows: Imputed, parameters: Parameters, plain: Callable[[], str], tell: Tell = unheard
) -> str:
    """The model of imputations: with own columns the even mixture with plain training.

    Args:
        rows: From `imputed`.
        parameters: How.
        plain: The model of the same columns as they were released.
        tell: Told after each boosting round.

    Returns:
        One LightGBM text model.
    """
    least = int(parameters.own.get("min_data_in_leaf", _LEAF))
    leaf = least * rows.times if rows.chosen else None
    joint = trainer.train(rows.frame, rows.label, replace(parameters, least_leaf=leaf), tell=tell)
    if not rows.chosen or len(rows.frame.ranked) == len(rows.frame.names):
        return joint
    return even_mixture(plain(), joint)


def imputed(
    frame: Frame,
    label: np.ndarray,
    parameters: Parameters,
    laws: Mapping[str, np.ndarray],
    seed: bytes,
) -> Imputed:
    """Several imputations of a frame, drawn by models that are chosen without a clear row.

    Args:
        frame: Training rows.
        label: Numbers or class indices, shape (n,).
        parameters: What is learnt, and from which seed.
        laws: Of the columns that are sampled; see `drawable`.
        seed: Of all draws, 32 bytes.
    """
    if not laws:
        return Imputed(frame, label, 1, ())
    draws, rows = Draws(seed), rows_of(frame, laws)
    own = any(name not in frame.ranked for name in frame.names)
    group, groups = _groups(frame, label, parameters, draws) if own else (None, 1)
    levels = {
        start: _labelled(rows, label, parameters, start, group, groups)
        for start in grid(own, parameters.task == "regression")
    }
    some = np.arange(len(label))
    if len(label) > FITTED_ROWS:
        order = np.argsort(draws.uniform("fitted", 0, len(label)), kind="stable")
        some = np.sort(order[:FITTED_ROWS])
    models = choose([(start, data.at(some)) for start, data in levels.items()], draws)
    times = max(1, min(IMPUTATIONS, STACKED_ROWS // len(label)))
    matrix = np.empty((times * len(label), len(frame.names)), order="F")
    picks = np.searchsorted(np.cumsum([c.weight for c in models]), draws.uniform("model", 0, times))
    for draw, pick in enumerate(np.minimum(picks, len(models) - 1)):
        here = slice(draw * len(label), (draw + 1) * len(label))
        matrix[here] = frame.matrix
        model = models[pick]
        for name, values in impute(model.classes, levels[model.start], draws, draw).items():
            matrix[here, frame.names.index(name)] = values + 1.0
    weight = None if frame.weight is None else np.tile(frame.weight, times)
    frame = replace(frame, matrix=matrix, weight=weight)
    return Imputed(frame, np.tile(label, times), times, models)


def _labelled(
    rows: Rows,
    label: np.ndarray,
    parameters: Parameters,
    start: Start,
    group: np.ndarray | None,
    groups: int,
) -> Rows:
    """The rows with the levels that a start goes by; a tied one's are level and group."""
    if parameters.task == "regression":
        level, levels = quantile_levels(label, start.levels)
    else:
        level, levels = label.astype(np.int64), max(parameters.classes, int(label.max()) + 1)
    if start.kind == "tied" and group is not None:
        level, levels = level * groups + group, levels * groups
    return rows.labelled(level, levels)


def _groups(
    frame: Frame, label: np.ndarray, parameters: Parameters, draws: Draws
) -> tuple[np.ndarray, int]:
    """Groups of what own columns alone predict for a row that they did not learn from."""
    own = [i for i, name in enumerate(frame.names) if name not in frame.ranked]
    names = tuple(frame.names[i] for i in own)
    categorical = tuple(name for name in frame.categorical if name in names)
    fold = (draws.uniform("fold", 0, len(label)) * _FOLDS).astype(np.int64)
    if len(np.unique(fold)) < _FOLDS:
        return np.zeros(len(label), dtype=np.int64), 1
    rows = Frame(names, frame.matrix[:, own], categorical, ())
    predictions = predicted(rows, label, parameters, fold)
    if parameters.task == "multiclass":
        classes, codes = np.unique(predictions.argmax(axis=1), return_inverse=True)
        return codes.reshape(-1), len(classes)
    return quantile_levels(predictions, _GROUPS)


def even_mixture(first: str, second: str) -> str:
    """The even mixture: all trees of both, each leaf at half its value.

    Raw scores are averaged: in regression the predictions, otherwise the log odds of the classes.

    Args:
        first: A LightGBM text model.
        second: Another one of the same features and the same label.

    Returns:
        A LightGBM text model.

    Raises:
        ContractError: The models do not fit together.
    """
    import lightgbm

    heads, trees, tails = zip(*(_model_parts(text) for text in (first, second)), strict=True)
    if _kept_lines(heads[0]) != _kept_lines(heads[1]):
        raise ContractError("Two models of different features or labels cannot be mixed.")
    numbered = [
        re.sub(r"\ATree=\d+", f"Tree={i}", _halved_tree(tree))
        for i, tree in enumerate([*trees[0], *trees[1]])
    ]
    text = "\n".join([heads[0].rstrip("\n"), "", *numbered, tails[0]])
    # LightGBM writes it again, so that what it says of importances is of all trees.
    written = lightgbm.Booster(model_str=text).model_to_string()
    return TextModel.parse(written).without(LOCAL).text()


def _model_parts(text: str) -> tuple[str, list[str], str]:
    head, *rest = re.split(r"^(?=Tree=\d+$)", text, flags=re.MULTILINE)
    if not rest:
        raise ContractError("A model without trees cannot be mixed.")
    last, mark, tail = rest[-1].partition("end of trees")
    if not mark:
        raise ContractError("This file is not a complete LightGBM text model.")
    head = "\n".join(line for line in head.split("\n") if not line.startswith("tree_sizes="))
    return head, [*rest[:-1], last], mark + tail


def _kept_lines(head: str) -> list[str]:
    return [line for line in head.split("\n") if not line.startswith("feature_infos=")]


def _halved_tree(tree: str) -> str:
    lines = tree.split("\n")
    for i, line in enumerate(lines):
        if line.startswith(_LEAVES):
            key, _, values = line.partition("=")
            lines[i] = f"{key}=" + " ".join(repr(float(v) * _HALF) for v in values.split())
    return "\n".join(lines)


def impute(classes: Classes, rows: Rows, draws: Draws, draw: int) -> dict[str, np.ndarray]:
    """Draw the values behind all released cells, those of a row together.

    First a class z from Pr[z | y, w, l], then each value from theta_z(x) K(x, y), in blocks.

    Args:
        classes: Of these rows.
        rows: All of them.
        draws: For the draws.
        draw: Which of several imputations it is.

    Returns:
        Values from 0, int32, shape (n,), by column.
    """
    widest = max([len(classes.pi), *(len(law) for law in rows.laws.values())])
    size = max(1, BLOCK // (4 * widest))
    values = {name: np.empty(len(rows), dtype=np.int32) for name in rows.noisy}
    for begin in range(0, len(rows), size):
        end = min(begin + size, len(rows))
        block = rows.at(slice(begin, end))
        uniform = draws.uniform(f"{draw}/class", begin, end)
        z = inverted(LatentRows(block, classes).responsibilities(classes).T, uniform)
        if classes.fixed:
            z += block.level * classes.possible
        for name, outputs in block.noisy.items():
            behind = classes.theta[name][:, z] * rows.laws[name][:, outputs]
            place = draws.uniform(f"{draw}/{name}", begin, end)
            values[name][begin:end] = inverted(behind, place)
    return values


def inverted(weights: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """One index a column, by the inverse of its distribution function.

    Args:
        weights: None negative, some positive in each column, shape (k, n).
        uniform: A number in (0, 1) for each column, shape (n,).

    Returns:
        int64, shape (n,).
    """
    steps = weights.cumsum(axis=0)
    below = uniform * steps[-1] > steps
    return np.asarray(np.minimum(below.sum(axis=0), len(weights) - 1))

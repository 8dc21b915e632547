"""Training on original values, sampled jointly from their posterior given the release."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from opboost_ops.errors import ContractError
from opboost_ops.learning.boosters import trainer
from opboost_ops.learning.boosters.backend import Frame, Parameters, Progress, silent
from opboost_ops.learning.boosters.lightgbm_backend import MACHINE_LINES
from opboost_ops.learning.boosters.lightgbm_text import TextModel
from opboost_ops.learning.denoise.classes import BLOCK, Classes, Draws, LatentRows
from opboost_ops.learning.denoise.rows import Rows, encode_rows, quantile_levels, samplable_laws
from opboost_ops.learning.denoise.starts import Start, WeightedModel, fit_models, grid
from opboost_ops.learning.tuning import out_of_fold_predictions
from opboost_ops.mechanisms.channel import Channel

#: Least rows per leaf and imputation: LightGBM's default.
_LEAF = 20

#: Most rows to which classes are fitted; values of all rows are sampled.
FITTED_ROWS = 40_000

#: Most imputations, and most rows of all imputations together: with many rows, fewer imputations
#: suffice. This limits memory to 8 bytes per cell, besides that of training itself.
IMPUTATIONS, STACKED_ROWS = 5, 2_000_000

#: Groups of predictions from own columns, and folds for these predictions.
_GROUPS, _FOLDS = 5, 5

_LEAVES = ("leaf_value=", "internal_value=")

#: Weight of each model in an even mixture; halving is exact in floats.
_HALF = 0.5


@dataclass(frozen=True, eq=False)
class Imputations:
    """Stacked imputations.

    Attributes:
        frame: Training rows, repeated for each imputation.
        label: Labels of these rows.
        times: Number of imputations.
        chosen: The models from which they were drawn; empty if nothing could be sampled.
    """

    frame: Frame
    label: np.ndarray
    times: int
    chosen: tuple[WeightedModel, ...]


def train(
    frame: Frame,
    label: np.ndarray,
    parameters: Parameters,
    channels: Mapping[str, Channel],
    seed: bytes,
    progress: Progress = silent,
) -> str:
    """Train on original values, sampled from their posterior given the release.

    With own columns, the model is the even mixture with training on the released values: own
    columns may predict the label better than the sampled ones, and draws that depend on the label
    would then mislead.

    Args:
        frame: Training rows.
        label: Numbers or class indices, shape (n,).
        parameters: Training parameters.
        channels: Channels of other parties' columns, by name.
        seed: Seed of all draws, 32 bytes.
        progress: Called after each boosting round of one model, then of the other.

    Returns:
        The model in LightGBM's text format.
    """
    return train_imputed(
        impute_frame(frame, label, parameters, samplable_laws(frame, channels), seed),
        parameters,
        lambda: trainer.train(frame, label, parameters, progress=progress),
        progress,
    )


def train_imputed(
    rows: Imputations, parameters: Parameters, plain: Callable[[], str], progress: Progress = silent
) -> str:
    """Train on imputations; with own columns, mix the model with one of the released values.

    Args:
        rows: From `impute_frame`.
        parameters: Training parameters.
        plain: Trains a model on the released values.
        progress: Called after each boosting round.

    Returns:
        The model in LightGBM's text format.
    """
    least = int(parameters.own.get("min_data_in_leaf", _LEAF))
    leaf = least * rows.times if rows.chosen else None
    joint = trainer.train(
        rows.frame, rows.label, replace(parameters, least_leaf=leaf), progress=progress
    )
    if not rows.chosen or len(rows.frame.ranked) == len(rows.frame.names):
        return joint
    return even_mixture(plain(), joint)


def impute_frame(
    frame: Frame,
    label: np.ndarray,
    parameters: Parameters,
    laws: Mapping[str, np.ndarray],
    seed: bytes,
) -> Imputations:
    """Draw several imputations of a frame.

    Args:
        frame: Training rows.
        label: Numbers or class indices, shape (n,).
        parameters: Training parameters.
        laws: Pr[output | value] of the columns to sample; see `samplable_laws`.
        seed: Seed of all draws, 32 bytes.
    """
    if not laws:
        return Imputations(frame, label, 1, ())
    draws, rows = Draws(seed), encode_rows(frame, laws)
    own = any(name not in frame.ranked for name in frame.names)
    group, groups = _groups(frame, label, parameters, draws) if own else (None, 1)
    levels = {
        start: _with_levels(rows, label, parameters, start, group, groups)
        for start in grid(own, parameters.task == "regression")
    }
    some = np.arange(len(label))
    if len(label) > FITTED_ROWS:
        order = np.argsort(draws.uniform("fitted", 0, len(label)), kind="stable")
        some = np.sort(order[:FITTED_ROWS])
    models = fit_models([(start, data.at(some)) for start, data in levels.items()], draws)
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
    return Imputations(frame, np.tile(label, times), times, models)


def even_mixture(first: str, second: str) -> str:
    """Return the even mixture of two models: all trees of both, with halved leaf values.

    It averages raw scores: predictions in regression, otherwise log odds.

    Args:
        first: A model in LightGBM's text format.
        second: Another model of the same features and label.

    Returns:
        A model in LightGBM's text format.

    Raises:
        ContractError: The models have different features or labels.
    """
    import lightgbm

    heads, trees, tails = zip(*(_model_parts(text) for text in (first, second)), strict=True)
    if _comparable_lines(heads[0]) != _comparable_lines(heads[1]):
        raise ContractError("Two models of different features or labels cannot be mixed.")
    numbered = [
        re.sub(r"\ATree=\d+", f"Tree={i}", _halved_tree(tree))
        for i, tree in enumerate([*trees[0], *trees[1]])
    ]
    text = "\n".join([heads[0].rstrip("\n"), "", *numbered, tails[0]])
    # LightGBM writes the text again, so that importances cover all trees.
    written = lightgbm.Booster(model_str=text).model_to_string()
    return TextModel.parse(written).without_lines(MACHINE_LINES).text()


def impute(classes: Classes, rows: Rows, draws: Draws, draw: int) -> dict[str, np.ndarray]:
    """Draw the original values of all released columns, jointly per row.

    A class z is drawn from Pr[z | y, w, l], then each value from theta_z(x) K(x, y), in blocks.

    Args:
        classes: Classes fitted to such rows.
        rows: The rows.
        draws: Random numbers.
        draw: Number of the imputation.

    Returns:
        Values from 0 by column, int32, shape (n,).
    """
    widest = max([len(classes.pi), *(len(law) for law in rows.laws.values())])
    size = max(1, BLOCK // (4 * widest))
    values = {name: np.empty(len(rows), dtype=np.int32) for name in rows.noisy}
    for begin in range(0, len(rows), size):
        end = min(begin + size, len(rows))
        block = rows.at(slice(begin, end))
        uniform = draws.uniform(f"{draw}/class", begin, end)
        z = sample_index(LatentRows(block, classes).responsibilities(classes).T, uniform)
        if classes.fixed:
            z += block.level * classes.possible
        for name, outputs in block.noisy.items():
            weights = classes.theta[name][:, z] * rows.laws[name][:, outputs]
            place = draws.uniform(f"{draw}/{name}", begin, end)
            values[name][begin:end] = sample_index(weights, place)
    return values


def sample_index(weights: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Sample one index per column by inversion.

    Args:
        weights: Nonnegative, with a positive sum in each column, shape (k, n).
        uniform: A number in (0, 1) per column, shape (n,).

    Returns:
        int64, shape (n,).
    """
    steps = weights.cumsum(axis=0)
    below = uniform * steps[-1] > steps
    return np.asarray(np.minimum(below.sum(axis=0), len(weights) - 1))


def _with_levels(
    rows: Rows,
    label: np.ndarray,
    parameters: Parameters,
    start: Start,
    group: np.ndarray | None,
    groups: int,
) -> Rows:
    """Return the rows with the levels of a start; if tied, combinations of level and group."""
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
    """Return groups of out-of-fold predictions from own columns, and the number of groups."""
    own = [i for i, name in enumerate(frame.names) if name not in frame.ranked]
    names = tuple(frame.names[i] for i in own)
    categorical = tuple(name for name in frame.categorical if name in names)
    fold = (draws.uniform("fold", 0, len(label)) * _FOLDS).astype(np.int64)
    if len(np.unique(fold)) < _FOLDS:
        return np.zeros(len(label), dtype=np.int64), 1
    rows = Frame(names, frame.matrix[:, own], categorical, ())
    predictions = out_of_fold_predictions(rows, label, parameters, fold)
    if parameters.task == "multiclass":
        classes, codes = np.unique(predictions.argmax(axis=1), return_inverse=True)
        return codes.reshape(-1), len(classes)
    return quantile_levels(predictions, _GROUPS)


def _model_parts(text: str) -> tuple[str, list[str], str]:
    head, *rest = re.split(r"^(?=Tree=\d+$)", text, flags=re.MULTILINE)
    if not rest:
        raise ContractError("A model without trees cannot be mixed.")
    last, mark, tail = rest[-1].partition("end of trees")
    if not mark:
        raise ContractError("This file is not a complete LightGBM text model.")
    head = "\n".join(line for line in head.split("\n") if not line.startswith("tree_sizes="))
    return head, [*rest[:-1], last], mark + tail


def _comparable_lines(head: str) -> list[str]:
    return [line for line in head.split("\n") if not line.startswith("feature_infos=")]


def _halved_tree(tree: str) -> str:
    lines = tree.split("\n")
    for i, line in enumerate(lines):
        if line.startswith(_LEAVES):
            key, _, values = line.partition("=")
            lines[i] = f"{key}=" + " ".join(repr(float(v) * _HALF) for v in values.split())
    return "\n".join(lines)

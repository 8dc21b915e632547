"""The columns of a file of scores, of what the model says and of what the version keeps."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.config.federation import Federation
from opboost_ops.config.scoring import Scoring
from opboost_ops.learning import calibration, decisions
from opboost_ops.learning.boosters.trainer import explained
from opboost_ops.learning.registry.importance import columns_by_feature

SCORE, CLASS = "score", "class"

#: What a class's probability is called, before its name.
PROBABILITY = "probability_"

_LOG = logging.getLogger("opboost_ops")

#: Rows that are explained at once.
_BLOCK = 20_000


def warn_untrained(facts: Mapping[str, Any], fitted: Mapping[str, Any], scoring: Scoring) -> None:
    """Say what was declared after a version was trained, or otherwise.

    Args:
        facts: What the version knows of its columns: ``task``.
        fitted: The version's own `scoring.json`.
        scoring: As declared now.
    """
    late = {
        "calibration": scoring.calibration is not None and "calibration" not in fitted,
        "interval": scoring.interval is not None and fitted.get("interval") is None,
    }
    of_task = {"binary": ("calibration",), "regression": ("interval",)}
    for key in of_task.get(facts["task"], ()):
        if late[key]:
            _LOG.warning(
                "scoring.%s was declared after this version was trained, or otherwise; its scores "
                "follow what it was trained with. Train a new version.",
                key,
            )


def score_columns(
    facts: Mapping[str, Any], fitted: Mapping[str, Any], scoring: Scoring, prediction: np.ndarray
) -> dict[str, pa.Array]:
    """Scores, decisions and probabilities.

    Args:
        facts: What the version knows of its columns: ``task`` and ``classes``.
        fitted: The version's own `scoring.json`.
        scoring: As declared now.
        prediction: What the model says, shape (n,) or (n, classes).

    Returns:
        ``score``: the positive class's probability, the likeliest class's, or a number; ``class``,
        null in regression; of classes a ``probability_<class>`` each; ``uncalibrated`` where the
        score is calibrated; ``low`` and ``high`` of a number's interval.
    """
    classes: list[str | int] = facts["classes"]
    if not classes:
        columns = {SCORE: pa.array(prediction), CLASS: pa.nulls(len(prediction), pa.string())}
        return columns | _interval(fitted, prediction)
    names = pl.Series(classes)
    if prediction.ndim == 2:
        picked = prediction.argmax(axis=1)
        columns = {SCORE: pa.array(prediction.max(axis=1)), CLASS: names[picked].to_arrow()}
        return columns | _probabilities(fitted, classes, prediction)
    score = prediction
    more = {}
    if "calibration" in fitted:
        score = calibration.apply(fitted["calibration"], prediction)
        more["uncalibrated"] = pa.array(prediction)
    picked = (score > decisions.threshold(scoring.cost_ratio)).astype(np.int64)
    columns = {SCORE: pa.array(score), CLASS: names[picked].to_arrow()}
    return columns | _probabilities(fitted, classes, np.column_stack([1 - score, score])) | more


def reason_columns(
    federation: Federation, names: list[str], text: str, matrix: np.ndarray, count: int
) -> dict[str, pa.Array]:
    """The features that contribute most to each row's raw score, largest first.

    Bits of one nominal feature are added: what they say, they say together. Of several classes the
    raw score is the likeliest one's.

    Args:
        federation: As the version was trained.
        names: The model's columns.
        text: The model.
        matrix: The rows, shape (n, features).
        count: How many features are named.

    Returns:
        ``reason_<i>_party``, ``_feature`` and ``_contribution``; ``reasons_base``, the expected raw
        score, ``reasons_rest``, what all features that are not named contribute, and ``raw_score``,
        which is the sum of all. Log odds, a raw class score or the number's own scale.
    """
    at = {name: i for i, name in enumerate(names)}
    groups = [
        (party, feature, [at[column] for column in columns if column in at])
        for (party, feature), columns in columns_by_feature(federation).items()
    ]
    blocks = [
        _explained(text, matrix[begin : begin + _BLOCK], [columns for _, _, columns in groups])
        for begin in range(0, len(matrix), _BLOCK)
    ]
    parts, base = (np.concatenate([block[i] for block in blocks]) for i in (0, 1))
    order = np.argsort(-np.abs(parts), axis=1, kind="stable")[:, :count]
    parties, features = (np.array([group[i] for group in groups], dtype=object) for i in (0, 1))
    reasons: dict[str, pa.Array] = {}
    named = np.take_along_axis(parts, order, axis=1)
    for i in range(order.shape[1]):
        reasons[f"reason_{i + 1}_party"] = pa.array(parties[order[:, i]], pa.string())
        reasons[f"reason_{i + 1}_feature"] = pa.array(features[order[:, i]], pa.string())
        reasons[f"reason_{i + 1}_contribution"] = pa.array(named[:, i])
    np.put_along_axis(parts, order, 0.0, axis=1)
    rest = parts.sum(axis=1)
    return reasons | {
        "reasons_base": pa.array(base),
        "reasons_rest": pa.array(rest),
        "raw_score": pa.array(base + named.sum(axis=1) + rest),
    }


def _explained(
    text: str, matrix: np.ndarray, groups: list[list[int]]
) -> tuple[np.ndarray, np.ndarray]:
    contributions = explained(text, matrix)
    if contributions.shape[1] > 1:
        best = contributions.sum(axis=2).argmax(axis=1)
        of_class = contributions[np.arange(len(contributions)), best]
    else:
        of_class = contributions[:, 0]
    parts = np.column_stack([of_class[:, columns].sum(axis=1) for columns in groups])
    return parts, of_class[:, -1]


def _probabilities(
    fitted: Mapping[str, Any], classes: list[str | int], table: np.ndarray
) -> dict[str, pa.Array]:
    if not fitted:
        return {}
    return {f"{PROBABILITY}{name}": pa.array(table[:, i]) for i, name in enumerate(classes)}


def _interval(fitted: Mapping[str, Any], prediction: np.ndarray) -> dict[str, pa.Array]:
    interval = fitted.get("interval")
    if interval is None:
        return {}
    half = interval["half_width"]
    if half is None:
        empty = pa.nulls(len(prediction), pa.float64())
        return {"low": empty, "high": empty}
    return {"low": pa.array(prediction - half), "high": pa.array(prediction + half)}

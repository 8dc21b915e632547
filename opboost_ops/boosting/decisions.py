"""From which score on a row counts as positive, and how wide the interval of a number is."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from opboost_ops.config.scoring import Threshold

#: Without a rule the likelier of two classes is chosen.
LIKELIER = 0.5


def threshold_of(rule: Threshold, label: np.ndarray, score: np.ndarray) -> dict[str, Any]:
    """The score above which a row counts as positive.

    Args:
        rule: As declared.
        label: 0 or 1 of held-out rows, shape (n,), n >= 1.
        score: Of these, shape (n,).

    Returns:
        ``value``, ``rule`` by its name and number, and ``reached``: whether any score has the
        precision that was asked for; if none has, no row counts as positive.
    """
    if rule.cost_ratio is not None:
        return by_cost(rule.cost_ratio)
    ordered = np.sort(score)[::-1]
    if rule.share is not None:
        flagged = min(round(rule.share * len(score)), len(score) - 1)
        found = {"value": _just_above(ordered, flagged), "reached": True}
        return {**found, "rule": {"share": rule.share}}
    assert rule.precision is not None
    hits = label[np.argsort(-score, kind="stable")].cumsum()
    count = np.arange(1, len(score) + 1)
    # Where equal scores end: a threshold lies between two of them.
    ends = np.r_[ordered[1:] != ordered[:-1], True]
    good = np.flatnonzero(ends & (hits / count >= rule.precision))
    told: dict[str, Any] = {"rule": {"precision": rule.precision}}
    if len(good) == 0:
        return {**told, "value": 1.0, "reached": False}
    last = int(good[-1])
    value = _just_above(ordered, last + 1) if last + 1 < len(ordered) else -1.0
    return {**told, "value": value, "reached": True}


def _just_above(ordered: np.ndarray, place: int) -> float:
    """Midpoint of a score and the next greater one: other software may round a score otherwise.

    Args:
        ordered: Scores, falling.
        place: Of the greatest score that is not positive.
    """
    least = ordered[place]
    greater = ordered[ordered > least]
    return float((least + greater[-1]) / 2 if len(greater) else least)


def by_cost(ratio: float) -> dict[str, Any]:
    """The threshold of least expected cost, for scores that are probabilities; see `Threshold`."""
    return {"value": 1 / (1 + ratio), "rule": {"cost_ratio": ratio}, "reached": True}


def threshold_in(fitted: Mapping[str, Any], rule: Threshold | None) -> float:
    """The score above which a version's rows are positive.

    Args:
        fitted: What the version has fitted in a mode; empty where it has nothing.
        rule: As declared now.
    """
    if rule is not None and rule.cost_ratio is not None:
        # It needs no rows, so it may be another one than when the version was trained.
        return float(by_cost(rule.cost_ratio)["value"])
    return float(fitted.get("threshold", {}).get("value", LIKELIER))


def half_width(level: float, label: np.ndarray, prediction: np.ndarray) -> float | None:
    """Half the width of an interval that holds a new row's number in a share of cases.

    Split conformal prediction (Lei et al., JASA 2018): of n absolute residuals of rows that were
    not trained on, the ceil((n + 1) level)-th. It holds on average over such rows, whatever the
    model, as long as new rows are like them and come in the same mode of scoring.

    Args:
        level: The share.
        label: Numbers of held-out rows, shape (n,).
        prediction: Of these, shape (n,).

    Returns:
        None where there are too few rows for any finite width.
    """
    place = math.ceil((len(label) + 1) * level)
    if place > len(label):
        return None
    return float(np.sort(np.abs(label - prediction))[place - 1])


def confusion(label: np.ndarray, score: np.ndarray, value: float) -> dict[str, float]:
    """Counts and shares of the rows above a threshold.

    Args:
        label: 0 or 1, shape (n,), n >= 1.
        score: Shape (n,).
        value: The threshold.
    """
    flagged, positive = score > value, label == 1
    hits, alarms = int((flagged & positive).sum()), int((flagged & ~positive).sum())
    missed, passed = int((~flagged & positive).sum()), int((~flagged & ~positive).sum())
    return {
        "true_positive": hits,
        "false_positive": alarms,
        "false_negative": missed,
        "true_negative": passed,
        "share": (hits + alarms) / len(label),
        "precision": hits / (hits + alarms) if hits + alarms else 0.0,
        "recall": hits / (hits + missed) if hits + missed else 0.0,
    }

"""From which score on a row counts as positive, and how wide the interval of a number is."""

import math

import numpy as np

#: Without a ratio of costs the likelier of two classes is chosen.
LIKELIER = 0.5


def threshold(cost_ratio: float | None) -> float:
    """The score above which a row counts as positive.

    Of scores that are probabilities, it has the least expected cost.

    Args:
        cost_ratio: ``scoring.cost_ratio``.
    """
    return LIKELIER if cost_ratio is None else 1 / (1 + cost_ratio)


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

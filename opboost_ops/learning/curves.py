"""Numbers for pictures of a model's held-out rows."""

from typing import Any

import numpy as np

from opboost_ops.learning.metrics import Task

#: Points of a curve, and groups of rows.
_POINTS, _GROUPS = 100, 10


def curves(task: Task, label: np.ndarray, prediction: np.ndarray) -> dict[str, Any]:
    """All curves of one model.

    Each step of a curve is a held-out row: they are for the party that holds these rows.

    Args:
        task: What was learnt.
        label: Numbers or class indices, shape (n,), n >= 1.
        prediction: As `metrics.evaluate` takes it.

    Returns:
        Of two classes ``roc`` (false against true positive rate), ``pr`` (recall against
        precision), ``gains`` (share of rows, highest scores first, against the share of all
        positives among them), each a list of points; and ``calibration``, groups of ascending
        scores with ``rows``, ``score`` and the ``share`` of positives. Of several classes
        ``confusion``, rows by class and by likeliest class, and ``calibration`` of the likeliest
        class. Of a number ``residuals``, groups of ascending predictions with ``rows``,
        ``prediction``, ``mean`` residual and its quantiles ``low``, ``middle`` and ``high`` (0.1,
        0.5 and 0.9).
    """
    if task == "regression":
        return {"residuals": _residuals(label, prediction)}
    if task == "multiclass":
        best = prediction.argmax(axis=1)
        classes = prediction.shape[1]
        cells = label.astype(np.int64) * classes + best
        rows = np.bincount(cells, minlength=classes**2).reshape(classes, classes)
        sure = prediction.max(axis=1)
        order = np.argsort(sure, kind="stable")
        calibration = _calibration((best == label).astype(np.float64), sure, order)
        return {"confusion": rows.tolist(), "calibration": calibration}
    order = np.argsort(prediction, kind="stable")
    calibration = _calibration(label, prediction, order)
    # Rows of one score count together, in whatever order they are.
    return {**_ranked(label, prediction, order[::-1]), "calibration": calibration}


def base_rates(task: Task, label: np.ndarray, classes: int) -> dict[str, Any]:
    """Base rates among the held-out rows, whatever the model.

    Args:
        task: What was learnt.
        label: Numbers or class indices, shape (n,), n >= 1.
        classes: How many; 0 in regression.

    Returns:
        ``shares`` of the classes in order, or ``mean`` and ``deviation`` of a number.
    """
    if task == "regression":
        return {"mean": float(label.mean()), "deviation": float(label.std())}
    counts = np.bincount(label.astype(np.int64), minlength=classes)
    return {"shares": (counts / len(label)).tolist()}


def _ranked(label: np.ndarray, score: np.ndarray, order: np.ndarray) -> dict[str, Any]:
    ends = np.flatnonzero(np.r_[np.diff(score[order]) != 0, True])
    hits = np.cumsum(label[order])[ends]
    count = ends + 1.0
    alarms = count - hits
    recall = hits / max(float(hits[-1]), 1.0)
    wrong = alarms / max(float(alarms[-1]), 1.0)
    points = _thinned(len(ends))
    origin = [[0.0, 0.0]]
    return {
        "roc": origin + np.column_stack([wrong, recall])[points].tolist(),
        "pr": np.column_stack([recall, hits / count])[points].tolist(),
        "gains": origin + np.column_stack([count / len(label), recall])[points].tolist(),
    }


def _thinned(count: int) -> np.ndarray:
    return np.unique(np.linspace(0, count - 1, min(count, _POINTS)).astype(np.int64))


def _groups(order: np.ndarray) -> list[np.ndarray]:
    return [part for part in np.array_split(order, _GROUPS) if len(part)]


def _calibration(hit: np.ndarray, score: np.ndarray, order: np.ndarray) -> list[dict[str, float]]:
    return [
        {"rows": len(at), "score": float(score[at].mean()), "share": float(hit[at].mean())}
        for at in _groups(order)
    ]


def _residuals(label: np.ndarray, prediction: np.ndarray) -> list[dict[str, float]]:
    residuals = []
    for at in _groups(np.argsort(prediction, kind="stable")):
        rest = label[at] - prediction[at]
        low, middle, high = np.quantile(rest, [0.1, 0.5, 0.9])
        residuals.append(
            {
                "rows": len(at),
                "prediction": float(prediction[at].mean()),
                "mean": float(rest.mean()),
                "low": float(low),
                "middle": float(middle),
                "high": float(high),
            }
        )
    return residuals

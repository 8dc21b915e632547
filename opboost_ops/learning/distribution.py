"""Histograms of scores, and curves of held-out rows for plots.

The counts are exact functions of people's rows, so they are only for the party that has the scores.
Each bin has no people or at least `MIN_PEOPLE`, so no bar is a single person. Two histograms of
nearly the same people still reveal the difference.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from opboost_ops.learning.metrics import Task
from opboost_ops.tables.spill.arrays import nth_smallest, slices, total

#: The least number of people in a bin that is not empty, and in a histogram.
MIN_PEOPLE = 10

#: Number of bins of probabilities, and approximate number of bins of numbers.
_BINS = 20

#: Round steps of a scale, per power of ten.
_STEPS = (1.0, 2.0, 5.0, 10.0)

#: Most points of a curve, and number of groups of rows.
_POINTS, _GROUPS = 100, 10


def bin_ends(task: Task, scores: np.ndarray) -> np.ndarray:
    """Return the ends of bins before any are merged.

    Args:
        task: The task of the label.
        scores: Shape (n,), in memory or mapped; only finite scores count.

    Returns:
        At least two ends, ascending. For probabilities, multiples of 1/20 whatever the scores are.
        For numbers, multiples of a round step that cover all but the lowest and the highest 5 % of
        the scores (at least all but `MIN_PEOPLE` - 1 on each side); for few scores, one bin around
        the median.
    """
    if task != "regression":
        return np.arange(_BINS + 1) / _BINS
    finite = partial(_finite, scores)
    count = sum(map(len, finite()))
    beyond = max(MIN_PEOPLE, count // _BINS) - 1
    if count <= 2 * beyond + 1:  # There are few scores.
        low = high = float(np.median(np.concatenate(list(finite()))))
    else:
        low, high = nth_smallest(finite, beyond), nth_smallest(finite, count - 1 - beyond)
    size = max(abs(low), abs(high))
    width = high - low
    # Below 1e-90 the step would underflow: treat all scores as equal, or as zero.
    raw = next(each for each in (width, size, 1.0) if each > max(1e-9 * size, 1e-90)) / _BINS
    power = 10.0 ** np.floor(np.log10(raw))
    step = next(part * power for part in _STEPS if part * power >= raw * 0.999)
    first, last = int(np.floor(low / step)), int(np.ceil(high / step))
    # Convert through decimal digits, so that 0.3 is not 0.30000000000000004.
    multiples = range(first, max(last, first + 1) + 1)
    return np.array([float(f"{at * step:.12g}") for at in multiples])


def count_scores(scores: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the number of scores in each bin, int64, shape (len(ends) - 1,).

    Args:
        scores: As for `bin_ends`.
        ends: From `bin_ends`; scores beyond them count in the first or the last bin.
    """
    bins = np.zeros(len(ends) - 1, dtype=np.int64)
    for block in _finite(scores):
        bins += np.histogram(np.clip(block, ends[0], ends[-1]), ends)[0]
    return bins


def histogram(name: str, scores: np.ndarray, ends: np.ndarray) -> dict[str, Any]:
    """Return a histogram of scores; see `merge_bins`.

    Args:
        name: Name of the histogram.
        scores: As for `bin_ends`.
        ends: From `bin_ends`.
    """
    return merge_bins(name, count_scores(scores, ends).tolist(), ends.tolist())


def merge_bins(name: str, bins: Sequence[int], ends: Sequence[float]) -> dict[str, Any]:
    """Merge bins of few people with the next bins.

    Args:
        name: Name of the histogram.
        bins: Number of scores in each bin.
        ends: One more than bins.

    Returns:
        ``name``, ``rows``, ``edges`` (one more than bins) and ``counts``, each 0 or at least
        `MIN_PEOPLE`. For fewer than `MIN_PEOPLE` scores, ``rows`` is null and there are no bins.
    """
    rows = sum(bins)
    if rows < MIN_PEOPLE:
        return {"name": name, "rows": None, "edges": [], "counts": []}
    edges, counts = [float(ends[0])], list[int]()
    pending = 0
    for count, end in zip(bins, ends[1:], strict=True):
        pending += count
        if pending == 0 and counts and counts[-1] == 0:
            edges[-1] = end
        elif pending == 0 or pending >= MIN_PEOPLE:
            counts.append(pending)
            edges.append(end)
            pending = 0
    if pending:
        # Merge the last few with the preceding bins, including empty ones.
        edges.append(float(ends[-1]))
        while pending < MIN_PEOPLE:
            pending += counts.pop()
            edges.pop(-2)
        counts.append(pending)
    return {"name": name, "rows": rows, "edges": edges, "counts": counts}


def held_out_distribution(
    task: Task, classes: list[str], truth: np.ndarray, prediction: np.ndarray
) -> dict[str, Any]:
    """Return the scores of held-out rows by true class or value.

    Args:
        task: The task of the label.
        classes: Names of the classes, in order; empty in regression.
        truth: Numbers or class indices, shape (n,).
        prediction: Scores as in a file of scores: for two classes, the probability of the positive
            one, shape (n,); for more, all probabilities, shape (n, classes); or numbers.

    Returns:
        ``least`` and ``series``, which are histograms: one per class for two classes; for more,
        the probability of the most likely class where it is right and where it is wrong; for
        numbers, predicted and true values.
    """
    if task == "regression":
        parts = {"predicted": prediction, "true": truth}
    elif task == "multiclass":
        right, sure = prediction.argmax(axis=1) == truth, prediction.max(axis=1)
        parts = {"right": sure[right], "wrong": sure[~right]}
    else:
        parts = {f"class {name}": prediction[truth == at] for at, name in enumerate(classes)}
    # True values spread wider than predictions, so they determine the bins.
    return _distribution(task, parts, truth if task == "regression" else np.ravel(prediction))


def new_distribution(
    task: Task, scores: np.ndarray, predicted: Mapping[str, int] | None
) -> dict[str, Any]:
    """Return the distribution of the scores of new rows.

    Args:
        task: The task of the label.
        scores: Column ``score`` of the file, shape (n,), in memory or mapped.
        predicted: Number of rows by predicted class, as text; None in regression.

    Returns:
        ``least`` and ``series``, a single histogram; ``mean`` of at least `MIN_PEOPLE` scores;
        ``said``, rows by predicted class, if each class has at least `MIN_PEOPLE`.
    """
    distribution = _distribution(task, {"scores": scores}, scores)
    if len(scores) >= MIN_PEOPLE:
        distribution["mean"] = total(scores) / len(scores)
        if predicted and min(predicted.values()) >= MIN_PEOPLE:
            distribution["said"] = dict(sorted(predicted.items()))
    return distribution


def curves(task: Task, label: np.ndarray, prediction: np.ndarray) -> dict[str, Any]:
    """Return all curves of a model.

    Each step of a curve is a held-out row, so curves are only for the party that has these rows.

    Args:
        task: The task of the label.
        label: Numbers or class indices, shape (n,), n >= 1.
        prediction: As for `metrics.evaluate`.

    Returns:
        For two classes, lists of points: ``roc`` (false against true positive rate), ``pr``
        (recall against precision) and ``gains`` (share of rows, highest scores first, against
        their share of all positives); and ``calibration``, groups of ascending scores with
        ``rows``, ``score`` and the ``share`` of positives. For more classes, ``confusion``, rows
        by true and most likely class, and ``calibration`` of the most likely class. For numbers,
        ``residuals``, groups of ascending predictions with ``rows``, ``prediction``, ``mean``
        residual and its quantiles ``low``, ``middle`` and ``high`` (0.1, 0.5 and 0.9).
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
    # Rows with equal scores count together, whatever their order.
    return {**_ranking_curves(label, prediction, order[::-1]), "calibration": calibration}


def base_rates(task: Task, label: np.ndarray, classes: int) -> dict[str, Any]:
    """Return the base rates of the held-out rows, which no model affects.

    Args:
        task: The task of the label.
        label: Numbers or class indices, shape (n,), n >= 1.
        classes: Number of classes; 0 in regression.

    Returns:
        ``shares`` of the classes in order, or ``mean`` and ``deviation`` of the numbers.
    """
    if task == "regression":
        return {"mean": float(label.mean()), "deviation": float(label.std())}
    counts = np.bincount(label.astype(np.int64), minlength=classes)
    return {"shares": (counts / len(label)).tolist()}


def _distribution(
    task: Task, parts: Mapping[str, np.ndarray], scores: np.ndarray
) -> dict[str, Any]:
    enough = sum(map(len, _finite(scores))) >= MIN_PEOPLE
    ends = bin_ends(task, scores) if enough else np.array([0.0, 1.0])
    return {
        "least": MIN_PEOPLE,
        "series": [histogram(name, of, ends) for name, of in parts.items()],
    }


def _finite(scores: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the finite scores in blocks."""
    for rows in slices(len(scores)):
        block = scores[rows]
        yield block[np.isfinite(block)]


def _ranking_curves(label: np.ndarray, score: np.ndarray, order: np.ndarray) -> dict[str, Any]:
    ends = np.flatnonzero(np.r_[np.diff(score[order]) != 0, True])
    hits = np.cumsum(label[order])[ends]
    count = ends + 1.0
    alarms = count - hits
    recall = hits / max(float(hits[-1]), 1.0)
    wrong = alarms / max(float(alarms[-1]), 1.0)
    points = _curve_points(len(ends))
    origin = [[0.0, 0.0]]
    return {
        "roc": origin + np.column_stack([wrong, recall])[points].tolist(),
        "pr": np.column_stack([recall, hits / count])[points].tolist(),
        "gains": origin + np.column_stack([count / len(label), recall])[points].tolist(),
    }


def _curve_points(count: int) -> np.ndarray:
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

"""Distributions of scores as counts by bins, and numbers for pictures of held-out rows.

The counts are exact functions of people's rows: they are for the party that holds the scores
themselves. A bin has nobody or `LEAST` people, so no bar is one person; two pictures of nearly the
same people still differ by those who are in one of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from opboost_ops.learning.metrics import Task
from opboost_ops.tables.spill.arrays import nth_smallest, slices, total

#: How many people a bin has at least, unless it has none; of fewer people there is no picture.
LEAST = 10

#: Into how many bins probabilities are counted, and about how many numbers are.
_PARTS = 20

#: Steps of a scale that people read, between one power of ten and the next.
_STEPS = (1.0, 2.0, 5.0, 10.0)

#: Points of a curve, and groups of rows.
_POINTS, _GROUPS = 100, 10


def grid(task: Task, scores: np.ndarray) -> np.ndarray:
    """Where bins may end, before any are merged.

    Args:
        task: What was learnt.
        scores: Shape (n,), in memory or mapped; those that are finite count.

    Returns:
        Ends in rising order, at least two. Of probabilities twentieths of [0, 1], whatever the
        scores are. Of numbers multiples of a round step between the `LEAST`-th lowest and the
        `LEAST`-th highest score, or those with a twentieth beyond them if that is further in; of
        fewer than twice as many one bin around the median.
    """
    if task != "regression":
        return np.arange(_PARTS + 1) / _PARTS
    finite = partial(_finite, scores)
    count = sum(map(len, finite()))
    beyond = max(LEAST, count // _PARTS) - 1
    if count <= 2 * beyond + 1:  # Then they are few.
        low = high = float(np.median(np.concatenate(list(finite()))))
    else:
        low, high = nth_smallest(finite, beyond), nth_smallest(finite, count - 1 - beyond)
    size = max(abs(low), abs(high))
    apart = high - low
    # Below 1e-90 parts of a step would be no numbers: then all scores count as equal, or as zero.
    raw = next(wide for wide in (apart, size, 1.0) if wide > max(1e-9 * size, 1e-90)) / _PARTS
    power = 10.0 ** np.floor(np.log10(raw))
    step = next(part * power for part in _STEPS if part * power >= raw * 0.999)
    first, last = int(np.floor(low / step)), int(np.ceil(high / step))
    # Through their digits, so that 0.3 is not 0.30000000000000004.
    multiples = range(first, max(last, first + 1) + 1)
    return np.array([float(f"{at * step:.12g}") for at in multiples])


def on_grid(scores: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """How many scores lie in each bin, int64, shape (len(ends) - 1,).

    Args:
        scores: As `grid` takes them.
        ends: From `grid`; what lies beyond counts to the first or the last bin.
    """
    bins = np.zeros(len(ends) - 1, dtype=np.int64)
    for block in _finite(scores):
        bins += np.histogram(np.clip(block, ends[0], ends[-1]), ends)[0]
    return bins


def counted(name: str, scores: np.ndarray, ends: np.ndarray) -> dict[str, Any]:
    """How many scores lie in each bin; see `merged`.

    Args:
        name: Of what these are the scores.
        scores: As `grid` takes them.
        ends: From `grid`.
    """
    return merged(name, on_grid(scores, ends).tolist(), ends.tolist())


def merged(name: str, bins: Sequence[int], ends: Sequence[float]) -> dict[str, Any]:
    """Bins of few people merged with those after them.

    Args:
        name: Of what these are the scores.
        bins: How many scores lie in each.
        ends: One more than bins.

    Returns:
        ``name``; ``rows``, ``edges`` (one more than bins) and ``counts``, each 0 or at least
        `LEAST`. Of fewer than `LEAST` scores ``rows`` is null and there are no bins.
    """
    rows = sum(bins)
    if rows < LEAST:
        return {"name": name, "rows": None, "edges": [], "counts": []}
    edges, counts = [float(ends[0])], list[int]()
    pending = 0
    for count, end in zip(bins, ends[1:], strict=True):
        pending += count
        if pending == 0 and counts and counts[-1] == 0:
            edges[-1] = end
        elif pending == 0 or pending >= LEAST:
            counts.append(pending)
            edges.append(end)
            pending = 0
    if pending:
        # The last few go with those before them, and with all that is empty in between.
        edges.append(float(ends[-1]))
        while pending < LEAST:
            pending += counts.pop()
            edges.pop(-2)
        counts.append(pending)
    return {"name": name, "rows": rows, "edges": edges, "counts": counts}


def held_out_distribution(
    task: Task, classes: list[str], truth: np.ndarray, prediction: np.ndarray
) -> dict[str, Any]:
    """The scores of rows of which it is known what they are, apart by what they are.

    Args:
        task: What was learnt.
        classes: In words and in order; none in regression.
        truth: Numbers or class indices, shape (n,).
        prediction: Scores as a file of scores has them: of two classes the positive one's
            probability, shape (n,); of several all probabilities, shape (n, classes); or numbers.

    Returns:
        ``least`` and ``series``, see `counted`: one of each of two classes; of several classes the
        likeliest class's probability where it is right and where it is not; of numbers what was
        predicted and what was so.
    """
    if task == "regression":
        parts = {"predicted": prediction, "true": truth}
    elif task == "multiclass":
        right, sure = prediction.argmax(axis=1) == truth, prediction.max(axis=1)
        parts = {"right": sure[right], "wrong": sure[~right]}
    else:
        parts = {f"class {name}": prediction[truth == at] for at, name in enumerate(classes)}
    # What was so lies further apart than what was predicted.
    return _distribution(task, parts, truth if task == "regression" else np.ravel(prediction))


def new_distribution(
    task: Task, scores: np.ndarray, predicted: Mapping[str, int] | None
) -> dict[str, Any]:
    """The scores of new rows.

    Args:
        task: What was learnt.
        scores: The file's column ``score``, shape (n,), in memory or mapped.
        predicted: How many rows are of each class that any is of, as text; None in regression.

    Returns:
        ``least`` and ``series``, of one; ``mean`` of at least `LEAST` scores; ``said``, rows by
        class, if no class has between one and `LEAST` of them.
    """
    distribution = _distribution(task, {"scores": scores}, scores)
    if len(scores) >= LEAST:
        distribution["mean"] = total(scores) / len(scores)
        if predicted and min(predicted.values()) >= LEAST:
            distribution["said"] = dict(sorted(predicted.items()))
    return distribution


def _distribution(
    task: Task, parts: Mapping[str, np.ndarray], scores: np.ndarray
) -> dict[str, Any]:
    enough = sum(map(len, _finite(scores))) >= LEAST
    ends = grid(task, scores) if enough else np.array([0.0, 1.0])
    return {"least": LEAST, "series": [counted(name, of, ends) for name, of in parts.items()]}


def _finite(scores: np.ndarray) -> Iterator[np.ndarray]:
    """The finite ones, some rows at a time."""
    for rows in slices(len(scores)):
        block = scores[rows]
        yield block[np.isfinite(block)]


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

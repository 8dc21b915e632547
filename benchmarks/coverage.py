"""Coverage of the intervals of held-out metrics, where the true value is known.

python -m benchmarks.coverage --draws 2000 --json
"""

import argparse
import json
from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from opboost_ops.learning.intervals import Comparison
from opboost_ops.learning.metrics import Task

#: Labels and predictions of one table.
_Draw = Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]


def _accuracy(rows: int, truth: float) -> _Draw:
    def draw(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        label = (random.random(rows) < 0.5).astype(float)
        wrong = random.random(rows) > truth
        return label, np.where(wrong, 1 - label, label) * 0.8 + 0.1

    return draw


def _auc(rows: int, positives: int, truth: float) -> _Draw:
    """Normal scores, whose classes lie so far apart that the AUC is the truth."""
    distance = np.sqrt(2) * ndtri(truth)

    def draw(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        label = (np.arange(rows) < positives).astype(float)
        raw = random.normal(size=rows) + distance * label
        return label, 1 / (1 + np.exp(-raw))

    return draw


def _r2(rows: int, truth: float, noise: Callable[[np.random.Generator, int], np.ndarray]) -> _Draw:
    """A perfect model of the signal; the noise has the variance 1."""
    scale = np.sqrt(truth / (1 - truth))

    def draw(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        signal = scale * random.normal(size=rows)
        return signal + noise(random, rows), signal

    return draw


def _student(random: np.random.Generator, rows: int) -> np.ndarray:
    return np.asarray(random.standard_t(3, rows) / np.sqrt(3))


def _normal(random: np.random.Generator, rows: int) -> np.ndarray:
    return random.normal(size=rows)


#: By name: task, metric, true value, and how a table is drawn.
SETTINGS: dict[str, tuple[Task, str, float, _Draw]] = {
    "accuracy .95, 60 rows": ("binary", "accuracy", 0.95, _accuracy(60, 0.95)),
    "AUC .97, 40 positives of 2,000": ("binary", "auc", 0.97, _auc(2000, 40, 0.97)),
    "AUC .8, 40 positives of 2,000": ("binary", "auc", 0.8, _auc(2000, 40, 0.8)),
    "AUC .7, 1,000 positives of 2,000": ("binary", "auc", 0.7, _auc(2000, 1000, 0.7)),
    "R2 .5, noise of t3, 300 rows": ("regression", "r2", 0.5, _r2(300, 0.5, _student)),
    "R2 .5, normal noise, 300 rows": ("regression", "r2", 0.5, _r2(300, 0.5, _normal)),
}


def coverage(name: str, draws: int, seed: int = 1) -> tuple[float, float]:
    """The share of tables whose interval has the true value, and the median width.

    Args:
        name: One of `SETTINGS`.
        draws: How many tables.
        seed: Of the tables.
    """
    task, metric, truth, draw = SETTINGS[name]
    random, held, widths = np.random.default_rng(seed), 0, []
    for _ in range(draws):
        label, prediction = draw(random)
        interval = Comparison(task, label, {"model": prediction}).interval("model", metric)
        held += interval.low <= truth <= interval.high
        widths.append(interval.high - interval.low)
    return held / draws, float(np.median(widths))


def main() -> None:
    """Print a line for each setting."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    result = {name: coverage(name, chosen.draws) for name in SETTINGS}
    if chosen.json:
        print(json.dumps({k: {"coverage": c, "width": w} for k, (c, w) in result.items()}))
        return
    for name, (share, width) in result.items():
        print(f"{name:36} {share:.3f}  median width {width:.3f}")


if __name__ == "__main__":
    main()

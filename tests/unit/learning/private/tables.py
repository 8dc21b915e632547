"""Small frames for DPBoost's tests, and its parameters."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from opboost_ops.learning.boosters.backend import Frame, Parameters, Private
from opboost_ops.learning.private.tree import Candidates

#: Labels of the frames below are numbers of [-1, 1], laid on themselves.
BOUNDS = (-1.0, 1.0)


def bits(rows: Sequence[Sequence[int]], features: int | None = None) -> Frame:
    """A frame of two-valued features, each with the one candidate split at 1/2."""
    count = features if features is not None else len(rows[0])
    names = tuple(f"x{i}" for i in range(count))
    matrix = np.array(rows, dtype=np.float64).reshape(-1, count)
    return Frame(names, matrix, (), (), dict.fromkeys(names, (0.5,)))


#: What is declared under ``private``.
_PRIVATE = ("trees_per_ensemble", "regularisation", "random", "delta")


def parameters(epsilon: float, trees: int = 1, **more: Any) -> Parameters:
    """Regression on [-1, 1]; what is not said is small."""
    private = {name: more.pop(name) for name in _PRIVATE if name in more}
    settings = {"task": "regression", "classes": 0, "learning_rate": 0.1, "depth": 1, "seed": 0}
    if more.get("task", "regression") == "regression":
        private["label_bounds"] = BOUNDS
    return Parameters(
        **(settings | more),
        trees=trees,
        trainer="dpboost",
        private=Private(epsilon=epsilon, **private),
    )


def mixed(rows: int, seed: int) -> tuple[Frame, np.ndarray]:
    """Ordered and nominal features, and two classes that depend on both."""
    rng = np.random.default_rng(seed)
    matrix = np.column_stack([rng.random((rows, 2)) * 10, rng.integers(0, 5, (rows, 2))])
    names = ("p", "q", "kind", "place")
    frame = Frame(
        names,
        np.asfortranarray(matrix),
        ("kind", "place"),
        (),
        {name: tuple(np.arange(0.5, 10)) for name in names[:2]},
        {"kind": 5, "place": 40},
    )
    return frame, ((matrix[:, 0] > 5) ^ (matrix[:, 2] == 3)).astype(float)


class Lines:
    """A memory of lines; when there is room for no more, power is lost."""

    def __init__(self, kept: list[bytes], room: int = 1000) -> None:
        self.kept, self.room = kept, room

    def lines(self) -> list[bytes]:
        return list(self.kept)

    def append(self, line: bytes) -> None:
        if len(self.kept) == self.room:
            raise KeyboardInterrupt
        self.kept.append(line)


def candidates_of(frame: Frame) -> Candidates:
    return Candidates.of(frame.names, frame.thresholds, frame.categories)

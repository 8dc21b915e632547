"""An audit of the private trainer at one party, by canaries on neighbouring tables.

A model is trained on a small table with a canary, and one on its neighbour: without the canary, or
with a canary of the opposite label. The attacker knows all other rows and reads the model's leaves.
It is the trainer as runs call it, with its noise; only the attacker is made up.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.papers.experiment import Experiment, Options, Progress
from benchmarks.papers.lower_bounds import BOUNDS, audited, bounds
from benchmarks.papers.markdown import table
from opboost_ops.learning.boosters.backend import Frame, Parameters, Private
from opboost_ops.learning.metrics import Task
from opboost_ops.learning.private import noise, noisy_leaves, trainer

#: The other rows, half of each label, all on the right of the only candidate split.
OTHERS = 100

Neighbour = Literal["added", "replaced"]


@dataclass(frozen=True)
class Setting:
    """What is audited.

    Attributes:
        task: ``binary`` or ``regression``.
        neighbour: What happens to the canary.
        epsilon: Declared, for a row that is added or removed.
        delta: Declared; below 1 / rows.
        trees: How many.
        weakened: What the noise is divided by: 1 but where the audit itself is tested.
    """

    task: Task = "regression"
    neighbour: Neighbour = "added"
    epsilon: float = 1.0
    delta: float = 0.005
    trees: int = 2
    weakened: int = 1

    @property
    def parameters(self) -> Parameters:
        """As a run has them."""
        number = self.task == "regression"
        return Parameters(
            task=self.task,
            classes=0 if number else 2,
            trees=self.trees,
            depth=1,
            # All trees see the canary's whole gradient.
            learning_rate=1e-6,
            seed=0,
            trainer="dpboost",
            private=Private(
                epsilon=self.epsilon,
                label_bounds=(-1.0, 1.0) if number else None,
                random=True,
                delta=self.delta,
            ),
        )

    @property
    def claim(self) -> float:
        """The epsilon that the card states for this neighbour, at the declared delta."""
        found = noisy_leaves.noise_of(self.parameters)
        assert found is not None
        return (found.curve if self.neighbour == "added" else found.replaced).epsilon


def tables(setting: Setting) -> tuple[tuple[Frame, np.ndarray], tuple[Frame, np.ndarray]]:
    """The table without what is guessed, and the one with it.

    Args:
        setting: What is audited.
    """
    low = 0.0 if setting.task == "binary" else -1.0
    others = [low, 1.0] * (OTHERS // 2)
    canaries = ([] if setting.neighbour == "added" else [low], [1.0])
    first, second = (
        (
            Frame(
                ("x",), np.array([[1.0]] * OTHERS + [[0.0]] * len(canary)), (), (), {"x": (0.5,)}
            ),
            np.array(others + canary),
        )
        for canary in canaries
    )
    return first, second


@contextmanager
def _weakened(factor: int) -> Iterator[None]:
    drawn = noise.skellam
    try:
        # The variance is twice the mean.
        noise.skellam = lambda count, mean: drawn(count, max(1, mean // factor**2))
        yield
    finally:
        noise.skellam = drawn


def audit(setting: Setting, runs: int, progress: Progress = lambda *_: None) -> dict[str, Any]:
    """See `audited`: so many models of each table."""
    sides, parameters = tables(setting), setting.parameters

    def score(there: bool) -> float:
        # The canary is alone in the left leaf, and its label raises it.
        trees = trainer.fit(*sides[there], parameters).trees
        return sum(tree.leaves[0] for tree in trees)

    with _weakened(setting.weakened):
        found = audited(score, runs, setting.delta, progress)
    return {
        "task": setting.task,
        "neighbour": setting.neighbour,
        "weakened": setting.weakened,
        "declared": setting.claim,
        **found,
    }


def run(options: Options) -> dict[str, Any]:
    """Audit each task and neighbour, and models with too little noise."""
    runs, progress = options["runs"], options.progress or (lambda *_: None)
    tasks: tuple[Task, ...] = ("regression", "binary")
    neighbours: tuple[Neighbour, ...] = ("added", "replaced")
    settings = [
        Setting(task, neighbour, options["epsilon"], weakened=weakened)
        for weakened in (1, 2)
        for task in tasks[: 2 if weakened == 1 else 1]
        for neighbour in neighbours
    ]
    each = 2 * (runs + runs // 4)
    rows = []
    for number, setting in enumerate(settings):

        def report(done: int, _: int, before: int = number * each) -> None:
            progress(before + done, len(settings) * each)

        rows.append(audit(setting, runs, report))
    return {"rows": rows}


def section(found: Mapping[str, Any], _: Path) -> str:
    """Markdown."""
    lines = [
        "## Private models at one party, audited",
        "",
        f"{OTHERS} rows and a canary that is alone in its leaf; {found['rows'][0]['runs']:,} "
        f"models per side, delta {found['rows'][0]['delta']:g}. The attacker knows all other rows "
        "and says of each model whether the canary was there, or which of two labels it had. "
        "Bounds are at 95 %, and vary between runs: Clopper and Pearson's, which holds for every "
        "mechanism, and one by the distance of two Gaussians with the attack's error rates (Nasr "
        "et al., 2023). With the noise divided by 2 bounds exceed what is declared. A binary label "
        "gives alike bounds.",
        "",
        table(
            ("label", "the canary is", "noise divided by", *BOUNDS),
            (
                (row["task"], row["neighbour"], str(row["weakened"]), *bounds(row, row["declared"]))
                for row in found["rows"]
                if row["task"] == found["rows"][0]["task"]
            ),
        ),
    ]
    return "\n".join([*lines, ""])


EXPERIMENTS = (
    Experiment(
        "private-audit",
        "A lower bound on what one row may cost in private models of one party, beside epsilon.",
        run,
        section,
        options={"runs": 10_000, "epsilon": 1.0},
        quick={"runs": 200},
    ),
)

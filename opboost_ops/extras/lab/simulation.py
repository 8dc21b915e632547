"""Simulation of a federation's gain by epsilon, on the party's own table split among parties.

Everything is in memory: values are randomised by the mechanisms' channels, trained on as ranks and
scored in each mode, as in a run, with noise from a public seed. Nothing is exchanged, and there is
no guarantee, because the table is the party's own.

A federation has a single draw of the noise, and its model may be better or worse than that of
another draw. Therefore each epsilon is simulated with several draws, and intervals cover both the
held-out rows and one more draw. With mean m and standard deviation s of D draws, the ends are

    m -+ sqrt( h^2 + t^2 s^2 (1 + 1 / D) )

where h is the mean half-width by the held-out rows and t Student's quantile of D - 1 degrees.
"""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy.special import stdtrit

from opboost_ops.domain import Domain
from opboost_ops.extras.datasets.split_table import Column, SplitTable
from opboost_ops.learning import splits
from opboost_ops.learning.boosters import trainer
from opboost_ops.learning.boosters.backend import Frame, Parameters, stopping_rows
from opboost_ops.learning.intervals import Comparison
from opboost_ops.learning.metrics import Interval, Task, constant_prediction, main_metric
from opboost_ops.mechanisms import GlobalMap, UnaryEncoding
from opboost_ops.mechanisms.noise import Words
from opboost_ops.mechanisms.release import randomise, randomise_bit
from opboost_ops.privacy.loss import loss_curve
from opboost_ops.reports.display.charts import Curve, chart
from opboost_ops.reports.display.html import charts_html

EPSILONS = (0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12)

MODES = ("desensitised", "routed")

ALONE, CENTRALISED = "alone", "centralised"

_HELD_OUT = 0.2

#: Number of draws of the noise at each epsilon.
DRAWS = 5

#: Minimum pooled gain that is worth a federation.
_MIN_GAIN = 0.002


@dataclass(frozen=True)
class Point:
    """The result for one mode at one epsilon.

    Attributes:
        epsilon: Epsilon of every protected column.
        loss: Loss of releasing a number, across the full range of the domain.
        mode: Scoring mode.
        metric: Mean over the draws, with the interval of one more draw.
        gain: Gain over the label holder alone on the same rows, with the same interval.
    """

    epsilon: float
    loss: float
    mode: str
    metric: Interval
    gain: Interval


@dataclass(frozen=True, repr=False)
class Simulation:
    """The result of a simulation.

    Attributes:
        task: Learning task.
        metric: Name of the metric.
        rows: Numbers of training rows and of held-out rows.
        alone: Metric of the label holder's own columns.
        centralised: Metric of all parties' unprotected columns.
        pooled_gain: Gain of ``centralised`` over ``alone``, the maximum gain of a federation.
        points: Results by mode and epsilon.
        left_out: Reasons by columns that no party got.
    """

    task: Task
    metric: str
    rows: tuple[int, int]
    alone: Interval
    centralised: Interval
    pooled_gain: Interval
    points: tuple[Point, ...]
    left_out: Mapping[str, str]

    def __repr__(self) -> str:
        pays = {mode: getattr(self.pays_from(mode), "epsilon", None) for mode in MODES}
        alone, whole = self.alone, self.centralised
        return f"Simulation({self.metric} alone {alone}, centralised {whole}; pays from {pays})"

    def document(self) -> dict[str, Any]:
        """Return the output of `opboost simulate --json`."""
        return {
            **asdict(self),
            "rows": {"training": self.rows[0], "held_out": self.rows[1]},
            "draws": DRAWS,
            "gain_shown": self.gain_shown,
            "pays_from": {
                mode: getattr(self.pays_from(mode), "epsilon", None)
                for mode in dict.fromkeys(point.mode for point in self.points)
            },
            "charged": False,
        }

    @property
    def gain_shown(self) -> bool:
        """True if pooling all unprotected columns shows a gain in this sample."""
        return self.pooled_gain.low > 0 and self.pooled_gain.value >= _MIN_GAIN

    def pays_from(self, mode: str) -> Point | None:
        """Return the smallest epsilon from which on the gain's interval is above zero.

        None if there is no such epsilon, or pooling shows no gain.

        Args:
            mode: Scoring mode.
        """
        smallest = None
        if not self.gain_shown:
            return None
        for point in sorted((p for p in self.points if p.mode == mode), key=lambda p: -p.epsilon):
            if point.gain.low <= 0:
                break
            smallest = point
        return smallest


def simulate(
    imagined: SplitTable,
    domain: Domain,
    epsilons: Sequence[float] = EPSILONS,
    parameters: Parameters | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> Simulation:
    """Train alone, centralised, and federated at each epsilon; compare on the same rows.

    Args:
        imagined: The split table.
        domain: Domain of protected numbers.
        epsilons: Epsilons of every protected column.
        parameters: Training parameters. Default: those of a federation file.
        seed: Seed of the noise and of the choice of held-out rows.
        progress: Called with the number of finished trainings and of all trainings.
    """
    classes = imagined.classes if imagined.task != "regression" else 0
    settings = parameters or Parameters(imagined.task, classes, 80, 0.1, 3, seed)
    held_out = stopping_rows(imagined.label, _HELD_OUT, seed, "simulation")
    experiment = _Experiment(imagined, domain, held_out, seed)
    truth = imagined.label[held_out]
    predictions = {}
    steps = len(epsilons) * DRAWS + 2
    for at, (name, columns) in enumerate(
        ((ALONE, experiment.own()), (CENTRALISED, experiment.raw()))
    ):
        predictions[name] = experiment.predictions(columns, settings)
        progress(at + 1, steps)
    for at, (epsilon, draw) in enumerate(product(epsilons, range(DRAWS))):
        for mode, prediction in experiment.federated(epsilon, draw, settings).items():
            predictions[f"{mode} {epsilon!r} {draw}"] = prediction
        progress(at + 3, steps)
    comparison = Comparison(imagined.task, truth, predictions)
    metric = main_metric(imagined.task)
    points = []
    for mode, epsilon in product(MODES, epsilons):
        names = [f"{mode} {epsilon!r} {draw}" for draw in range(DRAWS)]
        points.append(
            Point(
                epsilon,
                float(loss_curve(GlobalMap(name="global_map", epsilon=epsilon), domain).loss[-1]),
                mode,
                over_draws([comparison.interval(name, metric) for name in names]),
                over_draws([comparison.gain(name, ALONE, metric) for name in names]),
            )
        )
    return Simulation(
        imagined.task,
        metric,
        (int((~held_out).sum()), int(held_out.sum())),
        comparison.interval(ALONE, metric),
        comparison.interval(CENTRALISED, metric),
        comparison.gain(CENTRALISED, ALONE, metric),
        tuple(points),
        imagined.left_out,
    )


def over_draws(draws: Sequence[Interval]) -> Interval:
    """Return the mean over draws, and the 95 % interval of one more draw; see the module.

    Args:
        draws: Results of the draws, with intervals over held-out rows.
    """
    values = np.array([draw.value for draw in draws])
    mean, count = float(values.mean()), len(values)
    spread = float(stdtrit(count - 1, 0.975) * values.std(ddof=1) * math.sqrt(1 + 1 / count))
    below = float(np.mean([draw.value - draw.low for draw in draws]))
    above = float(np.mean([draw.high - draw.value for draw in draws]))
    # No metric and no gain is above 1.
    return Interval(
        mean, mean - math.hypot(below, spread), min(1.0, mean + math.hypot(above, spread))
    )


class _Experiment:
    """Trains and predicts on the table's split into training and held-out rows."""

    def __init__(
        self, imagined: SplitTable, domain: Domain, held_out: np.ndarray, seed: int
    ) -> None:
        self._imagined, self._domain, self._held = imagined, domain, held_out
        self._secret = hashlib.sha256(f"simulation {seed}".encode()).digest()

    def own(self) -> dict[str, Column]:
        return {f"own.{name}": column for name, column in self._imagined.own.items()}

    def raw(self) -> dict[str, Column]:
        return self.own() | {
            f"{party}.{name}": column
            for party, columns in self._imagined.others.items()
            for name, column in columns.items()
        }

    def predictions(self, columns: Mapping[str, Column], parameters: Parameters) -> np.ndarray:
        """Predict held-out rows by unprotected columns."""
        learns, held_out = ~self._held, self._held
        if not columns:
            task, label = self._imagined.task, self._imagined.label[learns]
            return constant_prediction(task, self._imagined.classes, label, int(held_out.sum()))
        matrix = np.asfortranarray(np.column_stack([c.raw for c in columns.values()]))
        nominal = tuple(name for name, column in columns.items() if column.categories)
        frame = Frame(tuple(columns), np.asfortranarray(matrix[learns]), nominal, ())
        text = trainer.train(frame, self._imagined.label[learns], parameters)
        return trainer.predict(text, np.asfortranarray(matrix[held_out]))

    def federated(self, epsilon: float, draw: int, parameters: Parameters) -> dict[str, np.ndarray]:
        """Predict held-out rows in each mode, by a model trained on released ranks."""
        learns, held_out = ~self._held, self._held
        own = self.own()
        names, released, clear = [], [], []
        for party, columns in self._imagined.others.items():
            for name, column in columns.items():
                full = f"{party}.{name}"
                for bit, values, exact in self._released(full, column, epsilon, draw):
                    names.append(bit)
                    released.append(values)
                    clear.append(exact)
        tables, ranks = [], []
        for values in released:
            table, inverse = np.unique(values[learns], return_inverse=True)
            tables.append(table)
            ranks.append(inverse.reshape(-1) + 1.0)
        mine = [column.raw for column in own.values()]
        frame = Frame(
            (*own, *names),
            np.asfortranarray(np.column_stack([*(values[learns] for values in mine), *ranks])),
            tuple(name for name, column in own.items() if column.categories),
            tuple(names),
        )
        partial = trainer.train(frame, self._imagined.label[learns], parameters)
        by_name = dict(zip(names, tables, strict=True))
        wanted = splits.used_splits(partial, names)
        thresholds = {
            name: dict(zip(used, splits.split_values(used, by_name[name]), strict=True))
            for name, used in wanted.items()
        }
        ends = (self._domain.lower, self._domain.upper)
        model = splits.materialise(partial, thresholds, dict.fromkeys(names, ends))
        return {
            mode: trainer.predict(model, np.column_stack([v[held_out] for v in (*mine, *others)]))
            for mode, others in (("desensitised", released), ("routed", clear))
        }

    def _released(
        self, name: str, column: Column, epsilon: float, draw: int
    ) -> list[tuple[str, np.ndarray, np.ndarray]]:
        """Return name, randomised and exact values of a column, or of each category's bit."""
        if not column.categories:
            mechanism = GlobalMap(name="global_map", epsilon=epsilon)
            source = self._noise(name, epsilon, draw)
            values = randomise(column.codes, mechanism, self._domain, source)
            return [(name, values.astype(float), column.codes.astype(float))]
        columns = []
        unary = UnaryEncoding(name="unary", epsilon=epsilon)
        for bit in range(column.categories):
            source = self._noise(f"{name}={bit}", epsilon, draw)
            values = randomise_bit(column.codes, column.categories, bit, unary, source)
            exact = (column.codes == bit).astype(float)
            columns.append((f"{name}={bit}", values.astype(float), exact))
        return columns

    def _noise(self, name: str, epsilon: float, draw: int) -> Words:
        return Words.seeded(self._secret, f"{name}/{epsilon}/{draw}")


#: Note beside the picture.
NOT_CHARGED = (
    "Noise and parties are simulated, and no ledger records this: it is not charged. If the table "
    "will be released, choosing an epsilon by it discloses something about it, outside any "
    "epsilon."
)


def answer(simulation: Simulation) -> list[str]:
    """Return sentences on the epsilons at which a federation would pay.

    Args:
        simulation: The result.
    """
    if not simulation.gain_shown:
        gain = f"{simulation.metric} {simulation.pooled_gain} over alone"
        if simulation.pooled_gain.high < _MIN_GAIN:
            return [
                f"No gain is possible: pooling all unprotected columns gains {gain}. A federation "
                "would not pay at any epsilon."
            ]
        return [
            f"Pooling shows no gain in this sample: all unprotected columns gain {gain}. A larger "
            "sample may show one."
        ]
    lines = []
    for mode in MODES:
        point = simulation.pays_from(mode)
        if point is None:
            lines.append(f"{mode}: no gain over alone is shown at the largest epsilon.")
        else:
            lines.append(
                f"{mode}: it would pay from epsilon {point.epsilon:g} on (loss {point.loss:.3g} "
                f"across the domain): {simulation.metric} {point.metric}, {point.gain} over alone."
            )
    return lines


def simulation_report(title: str, simulation: Simulation) -> str:
    """Plot the metric by loss; thin lines are the ends of 95 % intervals.

    Args:
        title: Title of the page.
        simulation: The result.
    """
    curves = []
    ends = sorted({point.loss for point in simulation.points})
    span = (ends[0], ends[-1])
    for mode in MODES:
        mine = sorted((p for p in simulation.points if p.mode == mode), key=lambda p: p.loss)
        curves.append(
            Curve(
                mode,
                [(p.loss, p.metric.value) for p in mine],
                band=[(p.metric.low, p.metric.high) for p in mine],
            )
        )
    for name, reference in (("alone", simulation.alone), ("centralised", simulation.centralised)):
        curves.append(
            Curve(
                f"{name}, {reference.value:.4f}",
                [(x, reference.value) for x in span],
                dashed=True,
                band=[(reference.low, reference.high)] * 2,
            )
        )
    marks = [ends[0], ends[len(ends) // 2], ends[-1]]
    caption = (
        f"{simulation.metric} of {simulation.rows[1]:,} held-out rows: means of {DRAWS} draws, "
        "with 95 % intervals"
    )
    picture = chart(
        curves,
        title=caption,
        x_ticks=[(x, f"{x:.3g}") for x in dict.fromkeys(marks)],
        x_label="loss of a number across the domain",
        from_zero=False,
        logarithmic=True,
    )
    lead = " ".join((*answer(simulation), NOT_CHARGED))
    return charts_html(title, lead, [(caption, picture)])

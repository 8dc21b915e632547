"""Would a federation pay, and at which epsilon? One's own table, split among imagined parties.

Everything is in memory: values are randomised by the mechanisms' own channels, trained on as ranks
and scored in each mode, as a run would, with noise from a public seed. There is no exchange, and
nobody's guarantee: the table is one's own.

A federation has one draw of the noise, and its model may be better or worse than another draw's.
So each epsilon is tried with several draws, and an interval covers both the held-out rows and one
more draw: of the draws' mean m and standard deviation s, over D draws, it reaches to

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

#: Draws of the noise at each epsilon.
DRAWS = 5

#: A pooled gain below this is none to be had: what noise leaves of it is not worth a federation.
_LITTLE = 0.002


@dataclass(frozen=True)
class Point:
    """One mode at one epsilon.

    Attributes:
        epsilon: Of every protected column.
        loss: What a release of a number costs who moves across the whole domain.
        mode: Of scoring.
        metric: Mean of the draws, with the interval of one more draw.
        gain: Over the label holder alone, on the same rows, likewise.
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
        task: What is learnt.
        metric: Of all figures.
        rows: Trained on, and held out.
        alone: The label holder's own columns.
        centralised: Everybody's columns as they are.
        pooled_gain: Of those over alone: what a federation could gain at most.
        points: By mode and epsilon.
        left_out: Columns that nobody got: why.
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
        """As `opboost simulate --json` prints it."""
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
        """True if the sample shows that pooling all columns as they are gains anything."""
        return self.pooled_gain.low > 0 and self.pooled_gain.value >= _LITTLE

    def pays_from(self, mode: str) -> Point | None:
        """The smallest epsilon from which on the gain's interval lies above zero.

        None where there is none, and where pooling shows no gain.

        Args:
            mode: Of scoring.
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
    """Train alone, on everything, and federated at each epsilon; compare on the same rows.

    Args:
        imagined: The table.
        domain: Of protected numbers.
        epsilons: Of every protected column.
        parameters: How to train; a federation file's defaults when absent.
        seed: Of noise and of which rows are held out.
        progress: Told how many trainings are done, and of how many.
    """
    several = imagined.classes if imagined.task != "regression" else 0
    settings = parameters or Parameters(imagined.task, several, 80, 0.1, 3, seed)
    held_out = stopping_rows(imagined.label, _HELD_OUT, seed, "simulation")
    whole = _Whole(imagined, domain, held_out, seed)
    truth = imagined.label[held_out]
    predictions = {}
    steps = len(epsilons) * DRAWS + 2
    for at, (name, columns) in enumerate(((ALONE, whole.own()), (CENTRALISED, whole.raw()))):
        predictions[name] = whole.predicted(columns, settings)
        progress(at + 1, steps)
    for at, (epsilon, draw) in enumerate(product(epsilons, range(DRAWS))):
        for mode, prediction in whole.federated(epsilon, draw, settings).items():
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
    """The mean over draws of the noise, and the 95 % interval of one more; see the module.

    Args:
        draws: Each with its interval by the held-out rows.
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


class _Whole:
    """The table with its split into training and held-out rows."""

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

    def predicted(self, columns: Mapping[str, Column], parameters: Parameters) -> np.ndarray:
        """Of the held-out rows, by columns as they are."""
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
        """Of the held-out rows, by mode, from a model on released ranks."""
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
        """Name, randomised values and exact ones; of categories a bit each."""
        if not column.categories:
            mechanism = GlobalMap(name="global_map", epsilon=epsilon)
            words = self._words(name, epsilon, draw)
            values = randomise(column.codes, mechanism, self._domain, words)
            return [(name, values.astype(float), column.codes.astype(float))]
        columns = []
        unary = UnaryEncoding(name="unary", epsilon=epsilon)
        for bit in range(column.categories):
            words = self._words(f"{name}={bit}", epsilon, draw)
            values = randomise_bit(column.codes, column.categories, bit, unary, words)
            exact = (column.codes == bit).astype(float)
            columns.append((f"{name}={bit}", values.astype(float), exact))
        return columns

    def _words(self, name: str, epsilon: float, draw: int) -> Words:
        return Words.seeded(self._secret, f"{name}/{epsilon}/{draw}")


#: What must stand beside the picture.
NOT_CHARGED = (
    "Noise and parties are imagined, and no ledger records this: it is not charged. If the table "
    "will be released, choosing an epsilon by it discloses something about it, outside any "
    "epsilon."
)


def answer(simulation: Simulation) -> list[str]:
    """Say in sentences from which epsilon on it would pay.

    Args:
        simulation: What came of it.
    """
    if not simulation.gain_shown:
        gain = f"{simulation.metric} {simulation.pooled_gain} over alone"
        if simulation.pooled_gain.high < _LITTLE:
            return [
                f"No gain to be had: all columns pooled as they are gain {gain}. A federation "
                "would not pay at any epsilon."
            ]
        return [
            f"Pooling shows no gain in this sample: all columns as they are gain {gain}. A larger "
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
    """One chart; its curves' thin lines are the ends of 95 % intervals.

    Args:
        title: Of the page.
        simulation: What it shows.
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

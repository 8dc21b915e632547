"""The pictures of the documents."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.papers import pictures
from opboost_ops.domain import Domain
from opboost_ops.mechanisms import (
    AdjMap,
    GeneralisedResponse,
    Geometric,
    GlobalMap,
    LocalMap,
    Mechanism,
    Piecewise,
)
from opboost_ops.privacy.averaging import fresh_and_pinned
from opboost_ops.privacy.loss import loss_curve

HUNDRED = Domain(1, 100)
TEN = Domain(1, 10)

#: A published secret: nobody's data are behind these pictures.
_PUBLIC = b"figures of the documents, public"
_COLUMN = "00000000-0000-4000-8000-000000000001"


def draw(folder: Path) -> Iterator[Path]:
    """Draw all pictures.

    Args:
        folder: Where they go.

    Yields:
        Each file as it is written.
    """
    yield _laws(folder / "output-laws.svg")
    yield _loss(folder / "loss-curves.svg")
    yield _averaging(folder / "averaging.svg")


def _laws(path: Path) -> Path:
    """Pr[y | x = 35]: what each mechanism makes of one value of a hundred."""
    figure, plots = pictures.canvas(columns=2)
    values = HUNDRED.values()
    for plot, epsilon in zip(plots, (0.1, 1.0), strict=True):
        named: list[tuple[str, Mechanism]] = [
            ("Global-map", GlobalMap(epsilon=epsilon)),
            ("Adj-map, alpha 0.4", AdjMap(epsilon=epsilon, theta=10, alpha=0.4)),
            ("Adj-map, alpha 5", AdjMap(epsilon=epsilon, theta=10, alpha=5)),
            ("Local-map", LocalMap(epsilon=epsilon, theta=10)),
        ]
        laws = {
            name: mechanism.channel(HUNDRED).probabilities()[35 - 1] for name, mechanism in named
        }
        pictures.lines(plot, values, {name: law.tolist() for name, law in laws.items()})
        plot.set_yscale("log")
        plot.set_ylim(1e-6, 1.5)
        pictures.name_axes(plot, f"x = 35, theta 10, epsilon {epsilon:g}", "output y", "Pr[y | x]")
    return pictures.save(figure, path)


def _loss(path: Path) -> Path:
    """loss(t) on [1, 10] at epsilon 1, nominal and exact."""
    figure, (plot,) = pictures.canvas(width=5.6)
    mechanisms: dict[str, Mechanism] = {
        "Global-map": GlobalMap(epsilon=1),
        "Clamped geometric": Geometric(epsilon=1),
        "Adj-map, theta 2, alpha 1": AdjMap(epsilon=1, theta=2),
        "Adj-map, theta 4, alpha 1": AdjMap(epsilon=1, theta=4),
        "Adj-map, theta 4, alpha 10": AdjMap(epsilon=1, theta=4, alpha=10),
        "response": GeneralisedResponse(epsilon=1),
        "Piecewise": Piecewise(epsilon=1),
    }
    distances = list(range(1, TEN.size))
    curves = {n: [float(v) for v in loss_curve(m, TEN).loss] for n, m in mechanisms.items()}
    plot.plot(distances, distances, linestyle=":", color=pictures.COLOURS[3], label="t epsilon")
    pictures.lines(plot, distances, curves)
    pictures.name_axes(plot, "Exact loss on [1, 10], epsilon 1", "distance t", "loss(t)")
    return pictures.save(figure, path)


def _averaging(path: Path) -> Path:
    """Recovery by averaging, with the noise that is used and with fresh noise."""
    domain = Domain(1, 1000)
    rows = 2000
    values = np.linspace(domain.lower, domain.upper, rows).round().astype(np.int64)
    curves = fresh_and_pinned(
        values,
        GlobalMap(epsilon=0.08),
        domain,
        30,
    )
    figure, (plot,) = pictures.canvas(width=5.6)
    pictures.lines(
        plot,
        list(range(1, 31)),
        {
            "pinned responses (as released)": [a.success for a in curves.pinned],
            "fresh noise at every run": [a.success for a in curves.fresh],
        },
    )
    plot.set_ylim(0.8, 1.01)
    title = "Averaging: Global-map, epsilon 0.08, |D| = 1000"
    pictures.name_axes(plot, title, "retrainings", "rows within 5 % of the domain")
    return pictures.save(figure, path)

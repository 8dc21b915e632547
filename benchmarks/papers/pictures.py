"""Pictures: one look for all of them, readable in light and dark and by the colour-blind."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

#: Okabe and Ito's palette without its black and yellow, which one of the two grounds swallows.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")

#: A grey that reads on white and on black.
_INK = "#767676"


def canvas(columns: int = 1, rows: int = 1, width: float = 4.6) -> tuple[Figure, list[Axes]]:
    """An empty picture with a transparent ground.

    Args:
        columns: Plots side by side.
        rows: Plots above one another.
        width: Of one plot, in inches.

    Returns:
        The figure, and its plots row by row.
    """
    figure = Figure(figsize=(width * columns, 3.4 * rows), layout="constrained")
    figure.patch.set_alpha(0.0)
    axes = figure.subplots(rows, columns, squeeze=False)
    for plot in axes.flat:
        plot.patch.set_alpha(0.0)
        plot.tick_params(which="both", colors=_INK)
        plot.grid(color=_INK, alpha=0.25, linewidth=0.6)
        for name, spine in plot.spines.items():
            spine.set_color(_INK)
            spine.set_visible(name in ("left", "bottom"))
    return figure, list(axes.flat)


def name_axes(plot: Axes, title: str, x: str, y: str) -> None:
    """Title and axis labels, in the ink of both grounds."""
    plot.set_title(title, color=_INK, fontsize=10)
    plot.set_xlabel(x, color=_INK)
    plot.set_ylabel(y, color=_INK)


def style(place: int) -> dict[str, Any]:
    """Colour and marker of a plot's curve."""
    return {
        "color": COLOURS[place % len(COLOURS)],
        "marker": MARKERS[(place + place // len(COLOURS)) % len(MARKERS)],
        "markersize": 3.5,
        "linewidth": 1.3,
    }


def lines(
    plot: Axes, x: Sequence[float] | np.ndarray, curves: Mapping[str, Sequence[float]]
) -> None:
    """Curves over one axis, each with a colour and a marker of its own, and a legend."""
    for i, (name, values) in enumerate(curves.items()):
        finite = [value if np.isfinite(value) else np.nan for value in values]
        every = max(1, len(finite) // 12)
        plot.plot(np.asarray(x)[: len(finite)], finite, label=name, markevery=every, **style(i))
    legend(plot)


def paths(plot: Axes, curves: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    """Curves whose points have an x of their own each, over a logarithmic axis; no legend."""
    for i, (name, points) in enumerate(curves.items()):
        finite = sorted(point for point in points if np.isfinite(point).all())
        dashes = "-" if i < len(COLOURS) else "--"
        x, y = zip(*finite, strict=True) if finite else ((), ())
        plot.plot(x, y, label=name, linestyle=dashes, **style(i))
    plot.set_xscale("log")


def level(plot: Axes, y: float, name: str, style: str) -> None:
    """A line across the whole plot."""
    plot.axhline(y, color=_INK, linestyle=style, linewidth=1.1, label=name)


def legend(plot: Axes) -> None:
    """A legend without a box."""
    plot.legend(frameon=False, labelcolor=_INK, fontsize=8)


def save(figure: Figure, path: Path) -> Path:
    """Write a picture; the same data gives the same file.

    Args:
        figure: The picture.
        path: Where; its suffix, ``.svg`` or ``.png``, is the format.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not the library's version either, which Matplotlib writes as the creator.
    unsaid = ("Date", "Creator") if path.suffix == ".svg" else ("Software",)
    metadata: dict[str, Any] = dict.fromkeys(unsaid)
    with matplotlib.rc_context({"svg.hashsalt": "opboost", "svg.fonttype": "path"}):
        figure.savefig(path, metadata=metadata, dpi=144)
    return path

"""The report's section on order: tables and pictures of what `order` measured."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes

from opboost_ops.lab import markdown, pictures
from opboost_ops.lab.settings import name_of

#: Epsilons that are tabled; the pictures have all.
_TABLED = (0.08, 0.32, 1.28)
_WORDS = {"loss_1": "loss(1)", "loss_whole": "loss(R - L)"}


def section(found: Mapping[str, Any], folder: Path) -> str:
    """The section, with its pictures drawn.

    Args:
        found: What `order.experiment` gave.
        folder: Where the pictures go.

    Returns:
        Markdown.
    """
    _draw(found, folder)
    rows = found["rows"]
    off = max(abs(row["kendall"][c] - row["expected"][c]) for row in rows for c in found["columns"])
    spread = max(sd for row in rows for sd in row["kendall_sd"].values())
    parts = [
        "## Order of columns",
        f"`{found['command']}`. Columns: {', '.join(found['columns'])}, laid on the domain by "
        f"their declared bounds; {found['seeds']} seeds. The weighted Kendall coefficient weighs a "
        "pair of rows by the distance of its dense ranks on the domain, and counts a tie as 0. Its "
        "expectation follows from the channel and the column's distribution. Over all settings and "
        f"columns the mean over seeds is never further than {off:.4f} from it; the largest spread "
        f"over seeds is {spread:.4f}. {found['paper']}",
        "![Weighted Kendall by epsilon](figures/evaluation-order.svg)",
    ]
    for upper in _uppers(rows):
        parts += _nominal(found, upper)
        parts += _equal(found, upper)
    parts += [
        "### Pairs of values",
        "gamma(t) is the least probability, over all pairs of values t apart, that the greater one "
        "has the greater output. beta, as it is computed here, is the least over all pairs of "
        "different values: ties count as lost, or for a half. The mean over all pairs stands "
        "beside it. The paper's statement of beta was not at hand, so it may "
        "differ. All are exact.",
        "![gamma by distance](figures/evaluation-order-gamma.svg)",
        "![beta by epsilon](figures/evaluation-order-beta.svg)",
    ]
    return "\n\n".join(parts) + "\n"


def _nominal(found: Mapping[str, Any], upper: int) -> list[str]:
    rows = [row for row in found["rows"] if row["upper"] == upper]
    tabled = [e for e in _TABLED if any(row["epsilon"] == e for row in rows)]
    tabled = tabled or sorted({row["epsilon"] for row in rows})
    heads = [f"epsilon {e:g}" for e in tabled]
    lines = []
    for name in dict.fromkeys(name_of(row) for row in rows):
        mine = {row["epsilon"]: row for row in rows if name_of(row) == name}
        cells = [
            f"{_mean(mine[e], 'kendall'):.3f} ({_mean(mine[e], 'expected'):.3f}), "
            f"{_loss(mine[e], 'loss_1')}, {_loss(mine[e], 'loss_whole')}"
            for e in tabled
        ]
        lines.append([name, *cells])
    columns = len(found["columns"])
    return [
        f"### [{found['lower']}, {upper}], by nominal epsilon",
        f"Mean weighted Kendall coefficient of {columns} columns, measured (and expected), then "
        "loss(1) and loss(R - L): the same epsilon is not the same guarantee.",
        markdown.table(["method", *heads], lines),
    ]


def _equal(found: Mapping[str, Any], upper: int) -> list[str]:
    rows = [row for row in found["equal"] if row["upper"] == upper]
    targets = list(dict.fromkeys((row["match"], row["target"]) for row in rows))
    heads = [f"{_WORDS[which]} = {target:g}" for which, target in targets]
    lines = []
    for name in dict.fromkeys(name_of(row) for row in rows):
        mine = {(r["match"], r["target"]): r for r in rows if name_of(r) == name}
        lines.append([name, *(f"{_mean(mine[t], 'expected'):.3f}" for t in targets)])
    return [
        f"### [{found['lower']}, {upper}], at equal loss",
        "Expected mean coefficient where epsilon is chosen so that the exact loss is the same (to "
        "0.2 %). Local-map has no finite loss.",
        markdown.table(["method", *heads], lines),
    ]


def _draw(found: Mapping[str, Any], folder: Path) -> None:
    uppers = _uppers(found["rows"])
    figure, plots = pictures.canvas(columns=2, rows=len(uppers))
    for i, upper in enumerate(uppers):
        left, right = plots[2 * i : 2 * i + 2]
        shown = _picked([row for row in found["rows"] if row["upper"] == upper])
        _by(left, shown, "epsilon", "kendall")
        title = f"[{found['lower']}, {upper}], mean of {len(found['columns'])} columns"
        pictures.name_axes(left, title, "nominal epsilon", "weighted Kendall, measured")
        _by(right, shown, "loss_whole", "kendall")
        pictures.name_axes(right, title, "loss(R - L)", "weighted Kendall, measured")
        # Curves begin low there, so that a legend hides none.
        pictures.legend(right)
    pictures.save(figure, folder / "evaluation-order.svg")

    figure, plots = pictures.canvas(columns=len(uppers))
    for plot, upper in zip(plots, uppers, strict=True):
        rows = [row for row in found["rows"] if row["upper"] == upper]
        epsilons = sorted({row["epsilon"] for row in rows})
        near = min(epsilons, key=lambda e: abs(e - 0.32))
        lines = {
            n: next(r for r in mine if r["epsilon"] == near) for n, mine in _picked(rows).items()
        }
        distances = [t for t in found["distances"] if t < upper]
        pictures.lines(plot, distances, {n: row["gamma"] for n, row in lines.items()})
        title = f"[{found['lower']}, {upper}], epsilon {near:g}"
        pictures.name_axes(plot, title, "distance t", "gamma(t)")
    pictures.save(figure, folder / "evaluation-order-gamma.svg")

    figure, plots = pictures.canvas(columns=2, rows=len(uppers))
    for i, upper in enumerate(uppers):
        shown = _picked([row for row in found["rows"] if row["upper"] == upper])
        for plot, key, what in zip(
            plots[2 * i : 2 * i + 2],
            ("beta_half", "beta_mean"),
            ("least over pairs, ties half", "mean over pairs, ties lost"),
            strict=True,
        ):
            _by(plot, shown, "epsilon", key)
            title = f"[{found['lower']}, {upper}], {what}"
            pictures.name_axes(plot, title, "nominal epsilon", "Pr[order kept]")
        pictures.legend(plots[2 * i])
    pictures.save(figure, folder / "evaluation-order-beta.svg")


def _by(plot: Axes, shown: Mapping[str, Sequence[Mapping[str, Any]]], x: str, y: str) -> None:
    curves = {
        name: [(float(r[x]), _mean(r, y) if y == "kendall" else r[y]) for r in rows]
        for name, rows in shown.items()
    }
    pictures.paths(plot, curves)


def _picked(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """One of each kind: the longest partitions, the least and the largest alpha."""
    theta = max(row["theta"] for row in rows)
    alphas = {row["alpha"] for row in rows if row["alpha"]}
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["method"] in ("local_map", "adj_map") and row["theta"] != theta:
            continue
        if row["method"] == "adj_map" and row["alpha"] not in (min(alphas), max(alphas)):
            continue
        if row["method"] != "grr":
            found.setdefault(name_of(row), []).append(row)
    return found


def _uppers(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    return list(dict.fromkeys(row["upper"] for row in rows))


def _mean(row: Mapping[str, Any], figure: str) -> float:
    return fmean(row[figure].values())


def _loss(row: Mapping[str, Any], which: str) -> str:
    return "infinite" if row[which] == "inf" else f"{row[which]:.3g}"

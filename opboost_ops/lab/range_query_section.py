"""The report's section on range queries: tables and pictures of what `range-query` measured."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opboost_ops.lab import markdown, pictures
from opboost_ops.lab.range_query import FIGURES
from opboost_ops.lab.settings import name_of

#: Epsilons that are tabled; the pictures have all.
_TABLED = (0.01, 0.08, 0.64, 5.12)
_WORDS = {"loss_1": "loss(1)", "loss_whole": "loss(R - L)"}


def section(found: Mapping[str, Any], folder: Path) -> str:
    """The section, with its pictures drawn.

    Args:
        found: What `range_query.experiment` gave.
        folder: Where the pictures go.

    Returns:
        Markdown.
    """
    tables = list(found["blind"])
    for name in tables:
        _draw(found, name, folder / f"evaluation-range_query-{name}.svg")
    pay = "{:,.0f} to {:,.0f}".format(*found["salary_bounds"])
    parts = [
        "## Range queries",
        f"`{found['command']}`. The error is the mean squared difference between the answer and "
        f"the truth, both as shares of all rows, over {found['queries']:,} random ranges of "
        f"[{found['domain'][0]}, {found['domain'][1]}] and {found['seeds']} releases. Tables: "
        f"{', '.join(tables)}. Salaries are laid on the domain linearly by the declared bounds "
        f"{pay}, values outside are clipped; the made-up table has {found['synthetic_rows']:,} "
        "rows of a normal law in the middle of the domain. Each release is answered in three ways: "
        "`direct` takes released values for true ones; `inverse` inverts the exact channel, so "
        "that its counts are unbiased (for buckets it is unbiased by bucket), and is left out "
        "where the condition number passes 1e10; `likely` is expectation maximisation with "
        f"smoothing, on the first {found['likely_seeds']} releases. The last two are ours, not "
        f"the paper's. {found['paper']}",
        f"{_check(found)} A possible output has a probability of at least 2^-52, so no finite loss "
        "exceeds 36.04, whatever epsilon.",
    ]
    for name in tables:
        blind = found["blind"][name]
        parts += [
            f"### {name}",
            f"![Error by epsilon and by loss](figures/evaluation-range_query-{name}.svg)",
            f"To answer without any release, all values taken for equally frequent, errs by "
            f"{blind:.2e}: the dotted line. Cells: direct, inverse, likely; then loss(1) and "
            "loss(R - L).",
            _nominal(found, name),
            "At equal loss, epsilon chosen so that the exact loss is the same (to 0.2 %); cells: "
            "direct, inverse, likely. Local-map has no finite loss.",
            _equal(found, name),
            _ahead(found, name),
        ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _check(found: Mapping[str, Any]) -> str:
    """How far the measured errors of linear estimates are from what the channel gives."""
    pairs = [
        (row[f], row[f"{f}_expected"], row[f"{f}_sd"])
        for row in [*found["rows"], *found["equal"]]
        for f in ("direct", "inverse")
        if row[f] is not None
    ]
    share = max(abs(mean / expected - 1) for mean, expected, _ in pairs)
    roots = found["seeds"] ** 0.5
    times = max(abs(mean - expected) * roots / sd for mean, expected, sd in pairs if sd)
    return (
        "What `direct` and `inverse` must err follows from the channel without any release; over "
        f"all {len(pairs)} such figures the measured mean is at most {100 * share:.1f} % off, and "
        f"at most {times:.1f} standard errors of the mean."
    )


def _nominal(found: Mapping[str, Any], table: str) -> str:
    rows = [row for row in found["rows"] if row["table"] == table]
    tabled = [e for e in _TABLED if any(row["epsilon"] == e for row in rows)]
    tabled = tabled or sorted({row["epsilon"] for row in rows})
    lines = []
    for name in dict.fromkeys(name_of(row) for row in rows):
        mine = {row["epsilon"]: row for row in rows if name_of(row) == name}
        cells = [f"{_errors(mine[e])}; {_losses(mine[e])}" for e in tabled]
        lines.append([name, *cells])
    return markdown.table(["method", *(f"epsilon {e:g}" for e in tabled)], lines)


def _equal(found: Mapping[str, Any], table: str) -> str:
    rows = [row for row in found["equal"] if row["table"] == table]
    targets = list(dict.fromkeys((row["match"], row["target"]) for row in rows))
    lines = []
    for name in dict.fromkeys(name_of(row) for row in rows):
        mine = {(r["match"], r["target"]): r for r in rows if name_of(r) == name}
        lines.append([name, *(_errors(mine[t]) for t in targets)])
    return markdown.table(["method", *(f"{_WORDS[w]} = {t:g}" for w, t in targets)], lines)


def _ahead(found: Mapping[str, Any], table: str) -> str:
    lines = [line for line in found.get("ahead", ()) if line["table"] == table]
    if not lines:
        return ""
    words = (
        f"AHEAD (Du et al., 2021), {min(found['seeds'], found['likely_seeds'])} runs: a tree that "
        "grows where answers say so, in as many rounds of people as it has levels; whoever answers "
        "is asked once. Its loss between any two values is epsilon, so both losses are. *Mended* "
        "is ours: a node may be split later, too, and the tree is made consistent."
    )
    rows = [[f"{line['epsilon']:g}", f"{line['error']:.1e}", f"{line['leaves']:.0f}",
             f"{line['mended']:.1e}", f"{line['mended_leaves']:.0f}"]
            for line in lines]  # fmt: skip
    heads = ["AHEAD, epsilon", "error", "leaves", "mended: error", "leaves"]
    return words + "\n\n" + markdown.table(heads, rows)


def _draw(found: Mapping[str, Any], name: str, path: Path) -> None:
    figure, plots = pictures.canvas(columns=3, rows=2)
    nominal, all_ = found["rows"], [*found["rows"], *found["equal"]]
    for i, (rows, x, words) in enumerate(
        ((nominal, "epsilon", "nominal epsilon"), (all_, "loss_whole", "loss(R - L)"))
    ):
        shown: dict[str, list[Mapping[str, Any]]] = {}
        for row in rows:
            if row["table"] == name and row["alpha"] in (0, 2):
                shown.setdefault(name_of(row), []).append(row)
        for plot, what in zip(plots[3 * i : 3 * i + 3], FIGURES, strict=True):
            pictures.paths(
                plot,
                {
                    method: [(float(r[x]), r[what]) for r in mine if r[what] is not None]
                    for method, mine in shown.items()
                },
            )
            plot.axhline(found["blind"][name], linestyle=":", color=pictures.COLOURS[3])
            plot.set_yscale("log")
            plot.set_ylim(3e-9, 10)
            pictures.name_axes(plot, f"{name}, {what}", words, "mean squared error")
    pictures.legend(plots[3])
    pictures.save(figure, path)


def _errors(row: Mapping[str, Any]) -> str:
    return ", ".join("none" if row[f] is None else f"{row[f]:.1e}" for f in FIGURES)


def _losses(row: Mapping[str, Any]) -> str:
    losses = (row[which] for which in ("loss_1", "loss_whole"))
    return ", ".join("infinite" if loss == "inf" else f"{loss:.3g}" for loss in losses)

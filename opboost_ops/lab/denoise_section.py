"""The report's section on denoising: what joint redraw gives, and where it takes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from opboost_ops.lab import pictures
from opboost_ops.lab.denoise import HALVED
from opboost_ops.lab.markdown import table

_NAMES = {"global_map": "Global-map", "geometric": "clamped geometric"}
_LOSSES = {"loss_1": "loss(1)", "loss_whole": "loss(R - L)"}
_METRICS = {"regression": "R2", "binary": "AUC", "multiclass": "accuracy"}


def worst(found: Mapping[str, Any]) -> str:
    """Where `auto` did worst, in a sentence: what a reader should see before any gain.

    Args:
        found: What `denoise.experiment` gave.
    """
    least = found["worst"]
    below = min(found["rows"], key=lambda row: row["auto"] - row["alone"])
    return (
        f"Of {len(found['rows'])} settings, `denoise: auto` was worst against plain training on "
        f"{_at(least)}: {least['auto']:.4f}, plain {least['plain']:.4f}. Against the label holder "
        f"alone it was worst on {_at(below)}: {below['auto']:.4f}, alone {below['alone']:.4f}. "
        "`auto` is `joint` where the label holder has no columns of its own, else plain training."
    )


def section(found: Mapping[str, Any], folder: Path) -> str:
    """The section.

    Args:
        found: What `denoise.experiment` gave.
        folder: Folder of the report's pictures.
    """
    rows = found["rows"]
    tables = list(dict.fromkeys(row["dataset"] for row in rows))
    half = [name for name in tables if name in HALVED]
    split = f" Of {', '.join(half)} each party has half of the columns." if half else ""
    losses = [row for row in rows if row["joint_gain"] < 0]
    harm = min(rows, key=lambda row: row["redraw_gain"])
    parts = [
        "## Drawing values back, and a channel of equal loss(1)",
        f"Tables: {', '.join(tables)}; seeds of split and draw beside each, full size, "
        f"[1, 10], {found['trees']} trees of depth {found['depth']}, learning rate "
        f"{found['rate']:g}, LightGBM.{split} R2 in "
        "regression, AUC of two classes, accuracy of more, on clear rows, which routed and local "
        "scoring meet; *desensitised* is plain training on randomised rows. Epsilon is "
        "Global-map's; the clamped geometric mechanism has the same loss(1). Gains are paired "
        "differences to plain training, with half the width of a 95 % interval where there are "
        "several seeds. With own columns *joint* is the even mixture with plain training.",
        f"`joint` is below plain training in {len(losses)} of {len(rows)} settings. `redraw` is "
        f"worst on {_at(harm)}: {harm['redraw']:.4f}, plain {harm['plain']:.4f}.",
        "One-sided paired t tests of each setting over its seeds, with Holm's correction at 5 % of "
        f"all settings together, find a loss {_told(found['harmed'], len(rows))}.",
        "*s* is seconds of the wall for `joint` with its training, the mean of a line's seeds; all "
        f"measurements took {found['hours']:g} hours, on a machine that did other work besides. A "
        "measurement is kept, and not made again when code gets faster: some here are from before "
        "`joint` became two to four times as fast, with the same draws. So seconds of two lines "
        "cannot be compared; `python benchmarks/denoising.py` measures what denoising costs.",
        _pictured(rows, tables, folder),
    ]
    heads = (
        "mechanism", "epsilon", "loss(1)", "loss(R - L)", "plain", "redraw", "joint",
        "auto - plain", "joint - plain", "desensitised", "s",
    )  # fmt: skip
    for name in tables:
        here = [row for row in rows if row["dataset"] == name]
        own = int(here[0]["own"])
        parts.append(
            f"**{name}**, seeds: {here[0]['seeds']}; own columns: {own}; alone "
            f"{here[0]['alone']:.4f}, centralised {here[0]['centralised']:.4f}:"
        )
        lines = [
            (
                _NAMES[row["mechanism"]],
                f"{row['epsilon']:g}",
                *(f"{row[key]:.3f}" for key in ("loss_1", "loss_whole")),
                *(f"{row[key]:.4f}" for key in ("plain", "redraw", "joint")),
                *(_gain(row, key) for key in ("auto", "joint")),
                f"{row['plain_desensitised']:.4f}",
                f"{row['seconds_joint']:.1f}",
            )
            for row in here
        ]
        parts.append(table(heads, lines))
    return "\n\n".join(parts) + "\n"


def _told(harmed: Mapping[str, Any], settings: int) -> str:
    """In how many settings each estimator is worse than what it is compared with."""
    words = {"plain": "plain training", "alone": "the label holder alone"}
    parts = []
    for pair, where in harmed.items():
        name, base = pair.split(" ")
        parts.append(f"of `{name}` against {words[base]} in {len(where)} of {settings}")
    return "; ".join(parts)


def _pictured(rows: Sequence[Mapping[str, Any]], tables: Sequence[str], folder: Path) -> str:
    """Metric by mode over both losses, a row a table."""
    figure, plots = pictures.canvas(columns=2, rows=len(tables), width=4.2)
    for line, name in enumerate(tables):
        here = [row for row in rows if row["dataset"] == name]
        for plot, (loss, words) in zip(plots[2 * line :], _LOSSES.items(), strict=False):
            curves = {
                f"{mode}, {channel}": [
                    (row[loss], row[key]) for row in here if row["mechanism"] == mechanism
                ]
                for mode, key in (("clear rows", "auto"), ("desensitised", "plain_desensitised"))
                for mechanism, channel in _NAMES.items()
            }
            pictures.paths(plot, curves)
            for key, style in (("alone", ":"), ("centralised", "--")):
                pictures.level(plot, here[0][key], key, style)
            pictures.name_axes(plot, name, words, _METRICS[here[0]["task"]])
    pictures.legend(plots[0])
    pictures.save(figure, folder / "evaluation-denoise.svg")
    return (
        "The same over both losses: clear rows by the best estimator known, which is `auto`, "
        "desensitised rows by plain training, beside the label holder alone and training on all "
        "columns as they are.\n\n![Metric by mode over loss(1) and over loss(R - L), a row a "
        "table, with the label holder alone and centralised training as lines]"
        "(figures/evaluation-denoise.svg)"
    )


def _at(row: Mapping[str, Any]) -> str:
    return f"{row['dataset']} at {row['epsilon']:g} ({_NAMES[row['mechanism']]})"


def _gain(row: Mapping[str, Any], name: str) -> str:
    half = row[f"{name}_half"]
    return f"{row[f'{name}_gain']:+.4f}" + (f" ± {half:.4f}" if half is not None else "")

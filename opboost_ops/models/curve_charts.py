"""Pictures of a version's held-out rows on its card, as SVG inside the page, each with a text."""

import html
from collections.abc import Mapping, Sequence
from typing import Any

from opboost_ops.models.charts import COLOURS

_SIZE, _EDGE = 240, 34

#: How the models are called below the pictures.
NAMES = {"label_holder_alone": "alone", "reference": "reference"}

Points = Sequence[Sequence[float]]


def curve_sections(evaluation: Mapping[str, Any], classes: Sequence[str | int]) -> str:
    """All pictures of an evaluation, as HTML; empty where it keeps no curves.

    Args:
        evaluation: As a version keeps it.
        classes: Of the label, in order; none in regression.
    """
    curves = evaluation.get("curves")
    if not curves:
        return ""
    new = f"federated_{evaluation['mode']}"
    order = [new, *(name for name in curves if name != new)]
    named = {NAMES.get(name, "this model"): curves[name] for name in order}
    base = _base(evaluation.get("base", {}), classes)
    first = curves[new]
    if "residuals" in first:
        return base + _residuals(named)
    parts = []
    if "roc" in first:
        picture = _lines(
            named, "roc", "false positive rate", "true positive rate", [(0, 0), (1, 1)]
        )
        parts.append(_figure("ROC", picture))
        picture = _lines(named, "pr", "recall", "precision", [])
        parts.append(_figure("Precision and recall", picture))
        picture = _lines(named, "gains", "share of rows", "share of positives", [(0, 0), (1, 1)])
        parts.append(_figure("Gains", picture))
    points = {
        name: {"c": [(group["score"], group["share"]) for group in of["calibration"]]}
        for name, of in named.items()
    }
    title = "Calibration" if "roc" in first else "Calibration of the likeliest class"
    picture = _lines(points, "c", "mean score", "share that is so", [(0, 0), (1, 1)])
    parts.append(_figure(title, picture))
    pictures = f'<div class="curves">{"".join(parts)}</div>'
    if "confusion" in first:
        pictures += _confusion(first["confusion"], classes)
    return base + _legend(list(named)) + pictures


def threshold_section(scoring: Mapping[str, Any], classes: Sequence[str | int]) -> str:
    """What the version's threshold, calibration and interval do to the held-out rows, as HTML.

    Args:
        scoring: The version's `scoring.json`.
        classes: Of the label, in order.
    """
    parts = []
    chosen = scoring.get("threshold")
    if chosen and len(classes) == 2:
        found, (other, positive) = chosen["confusion"], map(str, classes)
        rule = ", ".join(f"{k} {v:g}" for k, v in (chosen["rule"] or {}).items())
        told = rule or "the likelier class"
        reached = "" if chosen["reached"] else " No score reaches it, so no row counts as positive."
        rows = [
            ("", f"said {positive}", f"said {other}"),
            (f"is {positive}", f"{found['true_positive']:,}", f"{found['false_negative']:,}"),
            (f"is {other}", f"{found['false_positive']:,}", f"{found['true_negative']:,}"),
        ]
        parts.append(
            f"<p>A row counts as {html.escape(positive)} above {chosen['value']:.4f} ("
            f"{html.escape(told)}): {found['share']:.1%} of the held-out rows, "
            f"{found['precision']:.1%} of these rightly, and {found['recall']:.1%} of all that are "
            f"so.{reached}</p>{_table(rows)}"
        )
    calibrated = scoring.get("calibration")
    if calibrated:
        before, after = calibrated["figures"]["before"], calibrated["figures"]["after"]
        parts.append(
            f"<p>Scores are calibrated ({html.escape(calibrated['method'])}) on the held-out rows. "
            f"By rows of other folds: Brier {before['brier']:.4f} before, {after['brier']:.4f} "
            f"after; log loss {before['log_loss']:.4f} and {after['log_loss']:.4f}.</p>"
        )
    interval = scoring.get("interval")
    if interval:
        half = interval["half_width"]
        told = (
            f"A score is given with an interval of ±{half:.4g} (split conformal)."
            if half is not None
            else "Too few rows are held out for an interval beside a score."
        )
        parts.append(f"<p>{told} It is to hold {interval['level']:.0%} of all new numbers.</p>")
    return "".join(parts)


def _base(base: Mapping[str, Any], classes: Sequence[str | int]) -> str:
    if "shares" in base:
        shares = zip(classes, base["shares"], strict=False)
        told = ", ".join(f"{name} {share:.1%}" for name, share in shares)
        return f"<p>Of the held-out rows are: {html.escape(told)}.</p>"
    if "mean" in base:
        mean, deviation = base["mean"], base["deviation"]
        return f"<p>The held-out rows' mean is {mean:.5g}, with a deviation of {deviation:.5g}.</p>"
    return ""


def _lines(
    named: Mapping[str, Any], key: str, across: str, up: str, reference: Sequence[tuple[int, int]]
) -> str:
    drawn = []
    if reference:
        drawn.append(
            f'<polyline points="{_placed(reference)}" fill="none" stroke="currentColor" '
            'stroke-opacity=".4" stroke-dasharray="3 3"/>'
        )
    for i, of in enumerate(named.values()):
        dash = ("", 'stroke-dasharray="6 3"', 'stroke-dasharray="2 3"')[i % 3]
        drawn.append(
            f'<polyline points="{_placed(of[key])}" fill="none" stroke-width="2" {dash} '
            f'stroke="{COLOURS[i % len(COLOURS)]}"/>'
        )
    told = "; ".join(f"{name}: {_told(of[key])}" for name, of in named.items())
    label = html.escape(f"{up} over {across}. {told}")
    return _svg("".join(drawn), label, across, up)


def _told(points: Points) -> str:
    """A curve in words: where it is at a quarter, a half and three quarters."""
    said = []
    for at in (0.25, 0.5, 0.75):
        near = min(points, key=lambda point: abs(point[0] - at))
        said.append(f"{near[1]:.2f} at {near[0]:.2f}")
    return ", ".join(said)


def _residuals(named: Mapping[str, Any]) -> str:
    every = [group for of in named.values() for group in of["residuals"]]
    top = max((abs(group[k]) for group in every for k in ("low", "high")), default=0.0) or 1.0
    count = max(len(of["residuals"]) for of in named.values())
    drawn = []
    for i, of in enumerate(named.values()):
        colour = COLOURS[i % len(COLOURS)]
        for at, group in enumerate(of["residuals"]):
            x = (at + 0.5 + 0.18 * (i - 1)) / count
            low, middle, high = (0.5 + group[k] / top / 2 for k in ("low", "middle", "high"))
            (x1, y1), (_, y2), (_, y3) = (_place(x, y) for y in (low, high, middle))
            drawn.append(
                f'<line x1="{x1:.1f}" x2="{x1:.1f}" y1="{y1:.1f}" y2="{y2:.1f}" stroke="{colour}" '
                f'stroke-width="2"/><circle cx="{x1:.1f}" cy="{y3:.1f}" r="2.5" fill="{colour}"/>'
            )
    zero = _placed([(0, 0.5), (1, 0.5)])
    drawn.append(f'<polyline points="{zero}" fill="none" stroke="currentColor" opacity=".4"/>')
    first = next(iter(named.values()))["residuals"]
    told = "; ".join(
        f"{i + 1}: {g['middle']:.3g}, from {g['low']:.3g} to {g['high']:.3g}"
        for i, g in enumerate(first)
    )
    label = html.escape(f"residuals by decile of the prediction, median and 80 % of rows. {told}")
    heads = ("decile", "rows", "mean prediction", "mean residual", "10 %", "median", "90 %")
    rows = [heads] + [
        (
            str(i + 1),
            f"{g['rows']:,}",
            *(f"{g[k]:.4g}" for k in ("prediction", "mean", "low", "middle", "high")),
        )
        for i, g in enumerate(first)
    ]
    picture = _svg("".join(drawn), label, "deciles of the prediction", f"residual, ±{top:.3g}")
    figure = _figure("Residuals", picture)
    return f'{_legend(list(named))}<div class="curves">{figure}</div>{_table(rows)}'


def _confusion(rows: Sequence[Sequence[int]], classes: Sequence[str | int]) -> str:
    heads = ("", *(f"said {name}" for name in classes))
    body = [
        (f"is {name}", *(f"{n:,}" for n in row)) for name, row in zip(classes, rows, strict=False)
    ]
    return _table([heads, *body])


def _svg(inside: str, label: str, across: str, up: str) -> str:
    end = _SIZE - 8
    frame = (
        f'<rect x="{_EDGE}" y="8" width="{end - _EDGE}" height="{end - _EDGE - 8}" fill="none" '
        'stroke="currentColor" stroke-opacity=".35"></rect>'
    )
    words = (
        f'<text x="{(_EDGE + end) / 2}" y="{_SIZE - 14}" text-anchor="middle">'
        f"{html.escape(across)}</text>"
        f'<text x="12" y="{end / 2}" text-anchor="middle" transform="rotate(-90 12 {end / 2})">'
        f"{html.escape(up)}</text>"
    )
    return (
        f'<svg viewBox="0 0 {_SIZE} {_SIZE}" role="img" aria-label="{label}" font-size="11" '
        f'fill="currentColor">{frame}{inside}{words}</svg>'
    )


def _place(x: float, y: float) -> tuple[float, float]:
    wide, high = _SIZE - 8 - _EDGE, _SIZE - 16 - _EDGE
    return _EDGE + x * wide, 8 + (1 - y) * high


def _placed(points: Points) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in (_place(p[0], p[1]) for p in points))


def _figure(title: str, picture: str) -> str:
    return f"<figure><figcaption>{html.escape(title)}</figcaption>{picture}</figure>"


def _legend(names: Sequence[str]) -> str:
    lines = ("solid", "dashed", "dotted")
    items = "".join(
        f'<li><span style="color:{COLOURS[i % len(COLOURS)]}">■</span> {html.escape(name)} '
        f"({lines[i % 3]})</li>"
        for i, name in enumerate(names)
    )
    return f'<ul class="names">{items}</ul>'


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    heads = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in head)
    lines = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in body
    )
    return f"<div><table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table></div>"

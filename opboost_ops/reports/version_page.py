"""One model version as blocks, for its page in Airflow and its card."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opboost_ops.config.columns import EVERYONE
from opboost_ops.learning.boosters.trainer import format_of
from opboost_ops.learning.registry.card import Card
from opboost_ops.reports.display.blocks import (
    Block,
    Cell,
    Fact,
    Facts,
    Figures,
    Note,
    Row,
    Table,
    number,
)
from opboost_ops.reports.display.html import document_html
from opboost_ops.reports.plots import held_out_figures, held_out_scores, importance_figures
from opboost_ops.reports.versions import ALONE, Version, by_rank, interval_cell, key_of, mode_words

#: Display names of the models in an evaluation; all others are this version.
_NAMES = {ALONE: "label holder alone", "reference": "reference"}

#: Descriptions of the groups of people, by which feature holders have them.
_COVERAGE = {
    "complete": "in all feature holders' tables",
    "partial": "in some feature holders' tables",
    "own": "in no feature holder's table",
}

#: Unit of contributions, by task.
_TARGETS = {"binary": "log odds", "regression": "predicted number"}


def card_page(
    card: Card,
    evaluation: Mapping[str, Any] | None = None,
    scoring: Mapping[str, Any] | None = None,
    decision: str = "",
) -> str:
    """Return the card as a self-contained HTML file.

    Args:
        card: The card; all its text is escaped.
        evaluation: Evaluation of the version, with intervals and curves.
        scoring: How the version's scores are computed.
        decision: The reason for the gate's decision.
    """
    content = card.model_dump(mode="json")
    version = Version(
        card.run, content, evaluation or {"metrics": content["metrics"]}, scoring or {}
    )
    lead = f"Predicts {card.label} ({_target(content)}). Made by " + ", ".join(
        f"{name} {of}" for name, of in card.software.items()
    )
    blocks = version_blocks(version)
    if decision:
        blocks.insert(1, Note("", f"Decision: {decision}."))
    return document_html(f"{card.federation}, version {card.run}", f"{lead}.", blocks)


def version_blocks(version: Version) -> list[Block]:
    """Return all blocks of a version."""
    return [block for part in version_parts(version) for block in part()]


def version_parts(version: Version) -> list[Callable[[], list[Block]]]:
    """Return functions that build a version's blocks, so that a damaged part fails alone."""
    card = version.card
    modes = [f"{m['title']}: {m['discloses']}" for m in card.get("modes", ()) if m["discloses"]]
    limits = [*(card.get("limits") or ()), *filter(None, [card.get("centralised")])]
    return [
        lambda: _facts(version),
        lambda: _importance(version),
        lambda: _lines("How it was trained", card.get("training_words")),
        lambda: _lines("Privacy of the model", card.get("private")),
        lambda: [_metrics(version)],
        lambda: _coverage(version),
        lambda: _intervals(version),
        lambda: _read(version),
        lambda: _curves(version),
        lambda: _confusion(version),
        lambda: held_out_scores(version.evaluation),
        lambda: [_features(version), _parties(version)],
        lambda: _lines("What scoring new rows in each mode discloses, and to whom", modes),
        lambda: _lines("What training disclosed, and to whom", card.get("disclosed")),
        lambda: _lines("Limits of use", limits),
    ]


def _curves(version: Version) -> list[Block]:
    named = {_NAMES.get(name, "this version"): of for name, of in version.curves.items()}
    figures = held_out_figures(named)
    note = (
        "In the mode of scoring. Each step of a curve is a row: these pictures are for the label "
        "holder alone."
    )
    return [Figures("Held-out rows", figures, note)] if figures else []


def _lines(title: str, lines: Sequence[str] | None) -> list[Block]:
    return [Note("", title, lines=lines)] if lines else []


def _target(card: Mapping[str, Any]) -> str:
    classes, task = list(card.get("classes") or []), str(card.get("task", ""))
    if task == "binary" and len(classes) == 2:
        return f"{task}: the probability of the positive class {classes[1]}"
    return task


def _facts(version: Version) -> list[Block]:
    card = version.card
    if not card:
        return [Note("bad", f"The card of version {version.name} is damaged.")]
    training = {**version.training, **version.training.get("parameters", {})}
    words = ", ".join(
        f"{k} {('no', 'yes')[v] if isinstance(v, bool) else v}"
        for k, v in training.items()
        if k not in ("parameters", "trees", "depth", "trainer")
    )
    low, high = card.get("domain") or ["", ""]
    rows_hint = "of all parties together" if _horizontal(version) else "that all parties have"
    rows_hint = "all that are not held out" if version.coverage else rows_hint
    trees = f"{training.get('trees', '')} trees, depth {training.get('depth', '')}"
    facts = Facts(
        (
            Fact("Predicts", str(card.get("label", "")), _target(card)),
            Fact("Trained with", trees, f"{training.get('trainer', '')}, {words}"),
            Fact("Training rows", f"{card.get('training_rows', 0):,}", rows_hint),
            Fact("Held-out rows", f"{version.rows:,}", "all metrics are of these"),
            Fact("Domain of features", f"[{low}, {high}]", "of those without one of their own"),
        )
    )
    text = "An experiment without any guarantee."
    remedy = (
        "Its noise came from a public seed, or edges of its features were taken from a private "
        "table."
    )
    return [*([Note("warn", text, remedy)] if card.get("experiment") else []), facts]


def _metrics(version: Version) -> Table:
    lines = {line["name"]: line for line in version.card.get("modes", ())}
    names = by_rank({name for of in version.metrics.values() for name in of})
    rows: Sequence[Row] = [
        (
            str(lines.get(mode, {}).get("title") or mode_words(mode)),
            *(number(of.get(name), 4) for name in names),
            Cell("the mode of new rows" if lines.get(mode, {}).get("scoring") else ""),
        )
        for mode, of in version.metrics.items()
    ]
    return Table("metrics", "Metrics on held-out rows", ("trained on", *names, "scoring"), rows)


def _coverage(version: Version) -> list[Block]:
    """Return metrics by which feature holders have the person."""
    if not version.coverage:
        return []
    names = {ALONE: "label holder alone", version.mode: "this version"}
    metric = version.main
    rows: Sequence[Row] = [
        (
            _COVERAGE.get(group, group),
            of.get("rows"),
            *(number(of.get("metrics", {}).get(name, {}).get(metric), 4) for name in names),
        )
        for group, of in version.coverage.items()
    ]
    heads = ("people", "held-out rows", *(f"{metric} of {name}" for name in names.values()))
    note = "If a feature holder lacks a person, its columns are missing. In the mode of scoring."
    return [Table("coverage", "Metrics by who has the people", heads, rows, note)]


def _intervals(version: Version) -> list[Block]:
    if not version.intervals:
        return []
    gains = {name: of for name in _NAMES if (of := version.gains_over(name))}
    rows: Sequence[Row] = [
        (
            metric.replace("_", " "),
            interval_cell(version.intervals[metric]),
            *(interval_cell(of[metric], "+") for of in gains.values()),
        )
        for metric in by_rank(version.intervals)
    ]
    heads = ("metric", "this version", *(f"gain over {_NAMES[name]}" for name in gains))
    method = version.evaluation["interval_method"]
    note = (
        f"Where a figure would lie on other held-out rows ({method}; the same rows for both "
        "models). Another draw of noise or other training rows are not covered. A gain is above "
        "zero where this version is better, also of a loss."
    )
    if version.evaluation.get("heavy_tailed"):
        note += (
            " The errors have heavy tails: a few rows decide the squared error, so compare the "
            "mean absolute error too."
        )
    return [Table("intervals", "Metrics with 95 % intervals", heads, rows, note)]


def _read(version: Version) -> list[Block]:
    """Return sentences on reading scores: class shares, threshold, calibration and interval."""
    lines, classes = [], version.classes
    base, scoring = version.evaluation.get("base", {}), version.scoring
    if "shares" in base:
        pairs = zip(classes, base["shares"], strict=False)
        lines.append("Held-out rows: " + ", ".join(f"{n} {share:.1%}" for n, share in pairs) + ".")
    if "mean" in base:
        mean, deviation = base["mean"], base["deviation"]
        lines.append(f"Held-out rows: mean {mean:.5g}, standard deviation {deviation:.5g}.")
    threshold = scoring.get("threshold")
    if threshold and len(classes) == 2:
        counts = threshold["confusion"]
        lines.append(
            f"A row counts as {classes[1]} above {threshold['value']:.4f}: {counts['share']:.1%} "
            f"of the held-out rows, precision {counts['precision']:.1%}, recall "
            f"{counts['recall']:.1%}."
        )
    if calibrated := scoring.get("calibration"):
        before, after = calibrated["figures"]["before"], calibrated["figures"]["after"]
        lines.append(
            f"Scores are calibrated ({calibrated['method']}) on the held-out rows. "
            f"Cross-validated: Brier {before['brier']:.4f} before, {after['brier']:.4f} after; "
            f"log loss {before['log_loss']:.4f} and {after['log_loss']:.4f}."
        )
    if interval := scoring.get("interval"):
        half = interval["half_width"]
        lines.append(
            "Too few rows are held out for an interval beside a score."
            if half is None
            else f"A score has an interval of ±{half:.4g} (split conformal), which should "
            f"contain {interval['level']:.0%} of all new numbers."
        )
    return _lines("How to read its scores", lines)


def _confusion(version: Version) -> list[Block]:
    classes = version.classes
    first: Mapping[str, Any] = next(iter(version.curves.values()), {})
    rows = first.get("confusion")
    threshold = version.scoring.get("threshold")
    if threshold and len(classes) == 2:
        counts, classes = threshold["confusion"], classes[::-1]
        rows = [
            [counts["true_positive"], counts["false_negative"]],
            [counts["false_positive"], counts["true_negative"]],
        ]
    if not rows:
        return []
    cells: Sequence[Row] = [(f"is {name}", *row) for name, row in zip(classes, rows, strict=False)]
    heads = ("held-out rows", *(f"predicted {name}" for name in classes))
    return [Table("confusion", "Confusion matrix", heads, cells)]


def _horizontal(version: Version) -> bool:
    return any(party == EVERYONE for party, _ in version.splits)


def _importance(version: Version) -> list[Block]:
    if version.by_splits:
        return []
    booster = format_of(str(version.training.get("trainer"))).name
    target = _TARGETS.get(str(version.card.get("task")), "raw score")
    note = (
        f"The mean absolute contribution to the {target} (SHAP, computed by {booster}) over "
        f"{version.card.get('importance_rows', 0):,} held-out rows, as a share of all."
    )
    if not _horizontal(version):
        note += (
            " Other parties' features are randomised there, as in training: a feature with much "
            "noise looks less important than it is."
        )
    figures = importance_figures(version.shares, version.parties)
    return [Figures("Importance", figures, note)]


def _features(version: Version) -> Table:
    unprotected = "none: it stays with the label holder"
    if _horizontal(version):
        unprotected = "none: it stays at home, and sums leave"
    shares = {} if version.by_splits else version.shares
    gains = {key_of(i, "feature"): i.get("gain") for i in version.card.get("importance") or ()}
    keys = sorted(version.splits, key=lambda key: -shares.get(key, 0.0))
    loss = {key_of(f, "name"): f.get("loss") or {} for f in version.features}
    words = {key_of(f, "name"): f.get("mechanism") for f in version.features}
    most = max(shares.values(), default=0.0) or 1.0
    rows = []
    for key in keys:
        curve, share, gain = loss[key].get("loss") or (None,), shares.get(key), gains.get(key)
        part = None if share is None else Cell(f"{share:.1%}", share, share=share / most)
        rows.append(
            (
                key[0],
                key[1],
                words[key] or unprotected,
                None if curve[0] is None else len(curve) + 1,
                *(None if end is None else float(end) for end in (curve[0], curve[-1])),
                part,
                version.splits[key],
                None if gain is None else Cell(f"{gain:.4g}", gain),
            )
        )
    losses = ("values", "loss(1)", "loss(R-L)")
    heads = ("party", "feature", "protection", *losses, "importance", "splits")
    note = (
        "loss(t) bounds how much more likely any output becomes when one value moves by up to t "
        "steps of the domain, computed from the exact table that was sampled; `card.json` has the "
        "whole curve. Gain is what the booster's objective won by a feature's splits."
    )
    ends = {
        key: float(curve[-1])
        for key, protection in loss.items()
        if (curve := protection.get("loss"))
    }
    paid = [key for key in ends if key in shares and ends[key] > 0]
    if len(paid) > 1:
        least = min(paid, key=lambda key: shares[key] / ends[key])
        note += (
            f" {'.'.join(least)} brings least for its loss: {shares[least]:.1%} of the importance "
            f"for loss(R-L) {ends[least]:.2f}. Where budgets are short, leave it out first."
        )
    return Table("features", "Features", (*heads, "gain"), rows, note)


def _parties(version: Version) -> Table:
    shares = {} if version.by_splits else version.shares_by_party
    rows = [
        (
            str(party["name"]),
            str(party["role"]).replace("_", " "),
            party["features"],
            party["splits"],
            Cell(f"{shares[party['name']]:.1%}" if party["name"] in shares else ""),
        )
        for party in version.card.get("parties", ())
    ]
    heads = ("party", "role", "features", "splits", "importance")
    return Table("parties", "Parties", heads, rows)

"""The card as a page for people: one file that loads nothing from outside."""

import html
from collections.abc import Mapping, Sequence
from typing import Any

from opboost_ops.boosting.trainer import format_of
from opboost_ops.models.card import Card
from opboost_ops.models.charts import importance_bars, sparkline
from opboost_ops.models.curve_charts import NAMES, curve_sections, threshold_section
from opboost_ops.models.score_charts import distribution_section
from opboost_ops.privacy.loss import LossCurve


def card_page(
    card: Card,
    evaluation: Mapping[str, Any] | None = None,
    scoring: Mapping[str, Any] | None = None,
    decision: str = "",
) -> str:
    """The whole page.

    Args:
        card: What it shows; all its text is escaped.
        evaluation: Of the version: its intervals and curves.
        scoring: How the version's scores are made.
        decision: Why it became champion, or was kept aside.
    """
    entries = {**card.training, **card.training.get("parameters", {})}
    training = ", ".join(f"{k} {_word(v)}" for k, v in entries.items() if k != "parameters")
    evaluation = evaluation or {}
    return _PAGE.format(
        title=html.escape(f"{card.federation}, version {card.run}"),
        warning=_EXPERIMENT if card.experiment else "",
        task=html.escape(f"Predicts {card.label} ({_target(card)})"),
        training_rows=f"{card.training_rows:,}",
        whose="of all parties together" if _horizontal(card) else "that all parties have",
        training=html.escape(training),
        training_words="".join(f"<p>{html.escape(line)}</p>" for line in card.training_words),
        domain=f"[{card.domain[0]}, {card.domain[1]}]",
        rows=f"{card.held_out_rows:,}",
        metrics=_metrics(card) + _gains(evaluation),
        decision=f"<p>Decision: {html.escape(decision)}.</p>" if decision else "",
        curves=curve_sections(evaluation, card.classes)
        + distribution_section(evaluation)
        + threshold_section(scoring or {}, card.classes),
        centralised=html.escape(card.centralised),
        modes=_list(
            [f"{line.title}: {line.discloses}" for line in card.modes if line.discloses],
        ),
        parties=_parties(card),
        private=f"<h2>Privacy of the model</h2>{_list(card.private)}" if card.private else "",
        importance=_importance(card),
        features=_features(card),
        booster=_booster(card),
        disclosed=_list(card.disclosed),
        limits=_list(card.limits),
        software=html.escape(", ".join(f"{k} {v}" for k, v in card.software.items())),
    )


def _word(value: Any) -> Any:
    return ("no", "yes")[value] if isinstance(value, bool) else value


def _target(card: Card) -> str:
    if card.task == "binary" and len(card.classes) == 2:
        return f"{card.task}: the probability of the positive class {card.classes[1]}"
    return card.task


def _booster(card: Card) -> str:
    return format_of(str(card.training.get("trainer"))).name


def _metrics(card: Card) -> str:
    names = sorted({name for values in card.metrics.values() for name in values})
    rows = []
    for line in card.modes:
        values = card.metrics[line.name]
        figures = (f"{values[name]:.4f}" if name in values else "" for name in names)
        used = "new rows are scored so" if line.scoring else ""
        rows.append((line.title, *figures, used))
    return _table(("trained and evaluated on", *names, ""), rows)


#: In which order metrics with intervals stand, and what is said of them.
_WITH_INTERVALS = ("auc", "accuracy", "brier", "log_loss", "r2", "mse", "mae")


def _gains(evaluation: Mapping[str, Any]) -> str:
    intervals, gains = evaluation.get("intervals"), evaluation.get("gains", {})
    if not intervals:
        return ""
    new = f"federated_{evaluation['mode']}"
    others = [name for name in NAMES if name in gains]
    known = [name for name in _WITH_INTERVALS if name in intervals[new]]
    rows = [
        (
            name.replace("_", " "),
            _interval(intervals[new][name]),
            *(_interval(gains[other][name], signed=True) for other in others),
        )
        for name in known
    ]
    heads = ("metric", "this model", *(f"gain over {NAMES[name]}" for name in others))
    # Versions of before say nothing of the method: there was one.
    method = html.escape(evaluation.get("interval_method", "a bootstrap"))
    return _INTERVALS.format(method=method) + _table(heads, rows)


def _interval(of: Mapping[str, float], signed: bool = False) -> str:
    form = "+.4f" if signed else ".4f"
    return f"{of['value']:{form}} ({of['low']:{form}} to {of['high']:{form}})"


def _parties(card: Card) -> str:
    rows = [
        (
            line.name,
            line.role.replace("_", " "),
            str(line.features),
            str(line.splits),
            _share(card, line.name),
        )
        for line in card.parties
    ]
    features = sum(line.features for line in card.parties)
    splits = sum(line.splits for line in card.parties)
    rows.append(("all", "", str(features), str(splits), ""))
    return _table(("party", "role", "features", "splits", "importance"), rows)


def _share(card: Card, party: str, feature: str | None = None) -> str:
    found = [
        line.share
        for line in card.importance
        if line.party == party and feature in (None, line.feature)
    ]
    return f"{sum(found):.1%}" if found else ""


def _importance(card: Card) -> str:
    if not card.importance:
        return ""
    target = _SCORES.get(card.task, "raw score")
    named = [line.name for line in card.parties] + [line.party for line in card.importance]
    bars = importance_bars(card.importance, list(dict.fromkeys(named)))
    rows, booster = f"{card.importance_rows:,}", _booster(card)
    noise = "" if _horizontal(card) else _NOISE
    return _IMPORTANCE.format(rows=rows, target=target, booster=booster, noise=noise, bars=bars)


def _horizontal(card: Card) -> bool:
    return card.training.get("trainer") == "federboost"


def _features(card: Card) -> str:
    unprotected = "none: it stays with the label holder"
    if _horizontal(card):
        unprotected = "none: it stays at home, and sums leave"
    gains = {(line.party, line.feature): f"{line.gain:.4g}" for line in card.importance}
    heads = (
        *("party", "feature", "protection", "loss(1)", "loss(R-L)", "loss curve"),
        *("splits", "gain", "importance"),
    )
    rows = [
        (
            line.party,
            line.name,
            line.mechanism or unprotected,
            *_loss_cells(line.loss),
            str(line.splits),
            gains.get((line.party, line.name), ""),
            _share(card, line.party, line.name),
        )
        for line in card.features
    ]
    return _table(heads, rows, raw=heads.index("loss curve"))


def _loss_cells(curve: LossCurve | None) -> tuple[str, str, str]:
    if curve is None:
        return "", "", ""
    first, last = curve.loss[0], curve.loss[-1]
    finite = [value for value in curve.loss if value != "inf"]
    return _number(first), _number(last), sparkline([float(v) for v in finite])


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.3f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], raw: int = -1) -> str:
    heads = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in head)
    body = "".join(
        "<tr>"
        + "".join(f"<td>{c if i == raw else html.escape(c)}</td>" for i, c in enumerate(row))
        + "</tr>"
        for row in rows
    )
    return f"<div><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"


def _list(items: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{html.escape(item)}</li>" for item in items) + "</ul>"


_EXPERIMENT = (
    "<p class=warn>An experiment without any guarantee: its noise came from a public seed, "
    "or edges of its features were read off a private table.</p>"
)

_SCORES = {"binary": "log odds", "regression": "predicted number"}

_INTERVALS = """<p>With 95 % intervals: where a figure would lie on other held-out rows, of which
these are a sample ({method}; the same rows for both models). Another draw of noise or other
training rows are not in them. A gain is above zero where this model is better, also of a loss.</p>
"""

_IMPORTANCE = """<h2>What the model goes by</h2>
<p>The mean absolute contribution to the {target} (SHAP, computed by {booster}) over {rows}
held-out rows, as a share of all.{noise}</p>{bars}
"""

_NOISE = """ Other parties' features are randomised there, as they are in training: a feature with
much noise looks less important than it is."""

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 64rem;
  padding: 0 1rem; }}
h1 {{ overflow-wrap: anywhere; }}
div {{ overflow-x: auto; }}
table {{ border-collapse: collapse; }}
th, td {{ text-align: left; padding: .3rem .7rem; border-bottom: 1px solid #8884; }}
.warn {{ border: 2px solid #c80; padding: .5rem 1rem; }}
.curves {{ display: flex; flex-wrap: wrap; gap: 1rem; }}
.curves figure {{ margin: 0; flex: 1 1 15rem; max-width: 22rem; }}
.curves svg {{ width: 100%; }}
.names {{ list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: 1rem; }}
.bars {{ display: block; width: 100%; max-width: 28rem; margin: 0; }}
</style></head><body>
<h1>{title}</h1>{warning}
<p>{task}. Trained on {training_rows} rows {whose}: {training}.
Domain of the features: {domain}.</p>{training_words}
{private}<h2>Metrics on {rows} held-out rows</h2>{metrics}{decision}
{curves}<p>{centralised}</p>
<p>What scoring new rows in each way tells to whom:</p>{modes}
<h2>Parties</h2>{parties}
{importance}<h2>Features</h2>
<p>loss(t) bounds how much more likely any output becomes when one value moves by up to t steps
of the domain; it is computed from the very table that was sampled. Gain is what {booster}'s
objective won by a feature's splits in training.</p>{features}
<h2>What was told to whom</h2>{disclosed}
<h2>Limits of use</h2>{limits}
<p>Made by {software}.</p>
</body></html>
"""

"""The model card: what was trained, by whom, on what, and what it told to whom."""

import html
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from platform import python_version
from typing import Any

from opboost_ops import __version__
from opboost_ops.config.columns import columns_of
from opboost_ops.config.federation import Federation
from opboost_ops.config.schema import Record
from opboost_ops.privacy.loss import LossCurve

_LIMITS = (
    "The model was trained on randomised values of other parties' features: single predictions "
    "can be far off although the average is good.",
    "Its metrics name their mode. Mode desensitised means that the held-out rows' protected "
    "features were randomised too, as new rows will be.",
    "The model is not differentially private towards the label holder's own rows.",
    "It expects protected features as integers of the declared domain, mapped as declared.",
)

#: What leaves in a run; {label} is the label holder, {holders} are the feature holders.
_TOLD = (
    "{label} received a keyed digest of every ID of {holders}; whoever holds the alignment key "
    "can test guessed IDs (exact, no epsilon).",
    "{holders}: told by {label} which of the own rows all parties have, and which of them are "
    "held out (exact, no epsilon).",
    "{label} received the randomised values of each protected feature of {holders} as ranks, for "
    "held-out rows as domain values; what that costs is the loss curve beside the feature.",
    "{holders}: told by {label} at which ranks of the own features the trees split (exact, no "
    "epsilon).",
    "{label} received the randomised domain values at those ranks; they follow from values that "
    "were already randomised and charged.",
    "Everyone who sees the run learnt the metrics above, row counts, and that all checks passed "
    "(exact, no epsilon).",
)


class PartyLine(Record):
    """One party on the card."""

    name: str
    role: str
    features: int


class FeatureLine(Record):
    """One feature on the card."""

    party: str
    name: str
    type: str
    mechanism: str | None
    loss: LossCurve | None
    splits: int


class Card(Record):
    """A model's card.

    Attributes:
        federation: Its name.
        run: The run that made it; also the version.
        task: What it predicts.
        label: The label column.
        domain: Bounds L and R of protected features.
        training: Booster and parameters.
        metrics: By name of what was trained and in which mode it was evaluated.
        held_out_rows: How many rows the metrics stand on.
        parties: Who took part, in which role, with how many features.
        features: All features with protection, loss and use.
        disclosed: What was told to whom.
        limits: What the model is not good for.
        experiment: Made with predictable noise or edges of a private table: without any guarantee.
        software: What made it, by name: versions.
    """

    version: int = 1
    federation: str
    run: str
    task: str
    label: str
    domain: tuple[int, int]
    training: Mapping[str, Any]
    metrics: Mapping[str, Mapping[str, float]]
    held_out_rows: int
    parties: tuple[PartyLine, ...]
    features: tuple[FeatureLine, ...]
    disclosed: tuple[str, ...]
    limits: tuple[str, ...]
    experiment: bool
    software: Mapping[str, str]

    def json_bytes(self) -> bytes:
        """The card for programs."""
        return self.model_dump_json(indent=1).encode()

    def html_bytes(self) -> bytes:
        """The card for people: one page that loads nothing from outside."""
        return _page(self).encode()


def make_card(
    *,
    federation: Federation,
    run: str,
    evaluation: Mapping[str, Any],
    losses: Mapping[str, LossCurve],
    splits: Mapping[str, int],
    experiment: bool,
) -> Card:
    """Put a card together.

    Args:
        federation: As it was run.
        run: Its id.
        evaluation: ``rows`` and ``metrics`` of the held-out rows.
        losses: Loss curve by full feature name, as published with the releases.
        splits: How many splits of all trees are on it, by full feature name.
        experiment: Whether noise was predictable.
    """
    label = federation.parties[federation.label_holder].label
    assert label is not None
    lines: list[FeatureLine] = []
    for party, spec in federation.parties.items():
        charges: dict[str, list[str]] = {name: [name] for name in spec.features}
        if party in federation.feature_holders:
            columns = columns_of(federation, party)
            charges = {c.charge: [d.name for d in columns if d.charge == c.charge] for c in columns}
        for charge, names in charges.items():
            curve = losses.get(f"{party}.{charge}")
            lines.append(
                FeatureLine(
                    party=party,
                    name=charge,
                    type=spec.features[charge].type if charge in spec.features else "missing bit",
                    mechanism=curve.mechanism if curve else None,
                    loss=curve,
                    splits=sum(splits.get(f"{party}.{name}", 0) for name in names),
                )
            )
    return Card(
        federation=federation.name,
        run=run,
        task=label.task,
        label=label.column,
        domain=(federation.domain.lower, federation.domain.upper),
        training=federation.training.model_dump(mode="json"),
        metrics=evaluation["metrics"],
        held_out_rows=evaluation["rows"],
        parties=tuple(
            PartyLine(name=name, role=spec.role, features=len(spec.features))
            for name, spec in federation.parties.items()
        ),
        features=tuple(lines),
        disclosed=_told(federation),
        limits=_LIMITS,
        experiment=experiment,
        software={
            "OpBoost Ops": __version__,
            "LightGBM": version("lightgbm"),
            "NumPy": version("numpy"),
            "Python": python_version(),
        },
    )


def _told(federation: Federation) -> tuple[str, ...]:
    holders = ", ".join(federation.feature_holders)
    return tuple(line.format(label=federation.label_holder, holders=holders) for line in _TOLD)


def _page(card: Card) -> str:
    names = sorted({name for values in card.metrics.values() for name in values})
    metrics = _table(
        ("trained on, evaluated in mode", *names),
        [
            (mode.replace("_", " "), *(f"{values[n]:.4f}" if n in values else "" for n in names))
            for mode, values in card.metrics.items()
        ],
    )
    parties = _table(
        ("party", "role", "features"),
        [(p.name, p.role.replace("_", " "), str(p.features)) for p in card.parties],
    )
    features = _table(
        ("party", "feature", "protection", "loss(1)", "loss(R-L)", "loss curve", "splits"),
        [
            (
                line.party,
                line.name,
                line.mechanism or "none: it stays with the label holder",
                *_loss_cells(line.loss),
                str(line.splits),
            )
            for line in card.features
        ],
        raw=5,
    )
    warning = (
        "<p class=warn>An experiment without any guarantee: its noise came from a public seed, "
        "or edges of its features were read off a private table.</p>"
        if card.experiment
        else ""
    )
    training = ", ".join(f"{key} {value}" for key, value in card.training.items())
    return _PAGE.format(
        title=html.escape(f"{card.federation}, version {card.run}"),
        warning=warning,
        task=html.escape(f"Predicts {card.label} ({card.task})"),
        training=html.escape(training),
        domain=f"[{card.domain[0]}, {card.domain[1]}]",
        rows=f"{card.held_out_rows:,}",
        metrics=metrics,
        parties=parties,
        features=features,
        disclosed=_list(card.disclosed),
        limits=_list(card.limits),
        software=html.escape(", ".join(f"{k} {v}" for k, v in card.software.items())),
    )


def _loss_cells(curve: LossCurve | None) -> tuple[str, str, str]:
    if curve is None:
        return "", "", ""
    first, last = curve.loss[0], curve.loss[-1]
    finite = [value for value in curve.loss if value != "inf"]
    return _number(first), _number(last), _sparkline([float(v) for v in finite])


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.3f}"


def _sparkline(values: Sequence[float]) -> str:
    if not values:
        return "no finite loss"
    top = max(values) or 1.0
    step = 100 / max(len(values), 1)
    points = " ".join(
        f"{(i + 1) * step:.1f},{28 - 26 * v / top:.1f}" for i, v in enumerate((0.0, *values), -1)
    )
    return (
        '<svg viewBox="0 0 102 30" width="102" height="30" role="img" '
        f'aria-label="loss rises to {values[-1]:.3f}"><polyline fill="none" '
        f'stroke="currentColor" stroke-width="1.5" points="{points}"/></svg>'
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], raw: int = -1) -> str:
    heads = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join(
        "<tr>"
        + "".join(f"<td>{c if i == raw else html.escape(c)}</td>" for i, c in enumerate(row))
        + "</tr>"
        for row in rows
    )
    return f"<div><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"


def _list(items: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{html.escape(item)}</li>" for item in items) + "</ul>"


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 64rem;
  padding: 0 1rem; }}
div {{ overflow-x: auto; }}
table {{ border-collapse: collapse; }}
th, td {{ text-align: left; padding: .3rem .7rem; border-bottom: 1px solid #8884; }}
.warn {{ border: 2px solid #c80; padding: .5rem 1rem; }}
</style></head><body>
<h1>{title}</h1>{warning}
<p>{task}. Training: {training}. Domain of protected features: {domain}.</p>
<h2>Metrics on {rows} held-out rows</h2>{metrics}
<h2>Parties</h2>{parties}
<h2>Features</h2>
<p>loss(t) bounds how much more likely any output becomes when one value moves by up to t steps
of the domain; it is computed from the very table that was sampled.</p>{features}
<h2>What was told to whom</h2>{disclosed}
<h2>Limits of use</h2>{limits}
<p>Made by {software}.</p>
</body></html>
"""

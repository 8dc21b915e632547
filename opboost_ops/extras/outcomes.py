"""Comparison of scores with labels that became known later, joined by ID in the party's home.

A report has counts, means, metrics and groups of at least ten people; the labels are not stored.
The endpoint stores no scores, so people scored only by the endpoint count as not scored.
"""

import json
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from pydantic import ValidationError

from opboost_ops.config.federation import Federation, Label
from opboost_ops.config.policy import Policy
from opboost_ops.config.site import Site
from opboost_ops.errors import ContractError
from opboost_ops.exchange.party_state import forgotten_of
from opboost_ops.learning.distribution import MIN_PEOPLE
from opboost_ops.learning.intervals import Comparison
from opboost_ops.learning.metrics import Interval, Task
from opboost_ops.learning.registry.registry import Registry, federation_in
from opboost_ops.pipeline.evaluation.scores import PROBABILITY, SCORE
from opboost_ops.pipeline.home import Home
from opboost_ops.pipeline.inputs.holdout import require_moderate
from opboost_ops.pipeline.inputs.model_columns import encode_label
from opboost_ops.privacy.attacks import wilson
from opboost_ops.reports.outcomes import OUTCOMES, Group, Outcomes
from opboost_ops.tables.columns import match_names
from opboost_ops.tables.id_recipe import person_ids
from opboost_ops.tables.parquet import scan

#: Maximum number of groups, each of at least `MIN_PEOPLE` rows.
_GROUPS = 10

#: Half width of a 95 % interval in standard deviations.
_Z = 1.959964

_ID, _LABEL = "id", "label"


def id_columns(federation: Federation, policy: Policy) -> str:
    """Return the raw names of the columns that IDs are made of, separated by commas.

    Args:
        federation: The federation with which the version was trained.
        policy: The label holder's policy.
    """
    identity = federation.id
    return ",".join(policy.raw_column(name, identity.column) for name in identity.parts)


def report(
    site: Site, policy: Policy, federation: str, version: str, table: pl.DataFrame
) -> Outcomes:
    """Compare a version's scores with known outcomes, and store the report in the home.

    The report replaces the version's previous one.

    Args:
        site: The label holder's site.
        policy: The label holder's policy.
        federation: Name of the federation.
        version: The version.
        table: All known outcomes: IDs and the label by their raw names, one row per person.

    Raises:
        ContractError: The table has another form, or the version has scored too few of its people.
    """
    files = Registry(site.models, federation).files(version)
    trained, facts = federation_in(files), json.loads(files["columns.json"])
    folder = site.scores / federation / version
    modes = {path.name.partition("-")[0] for path in folder.glob("*.parquet")}
    # The mode may have changed since training; only this one has intervals to compare with.
    judged = json.loads(files["evaluation.json"])["mode"]
    mode = min(modes, key=lambda of: (of != judged, of), default=judged)
    label = trained.label
    assert label is not None
    ids, labels = _people(table, trained, label, policy)
    allowed = forgotten_of(site).keep(ids.to_arrow(), trained.id.type)
    settled = pl.Series(allowed) & labels.is_not_null()
    truths = _encoded(labels.filter(settled), label, facts["classes"])
    people = pl.DataFrame({_ID: ids.filter(settled).cast(pl.String), _LABEL: truths})
    paths = folder.glob(f"{mode}-*.parquet")
    scored = people.join(_scores([*paths], trained.id.column, people, version, mode), on=_ID)
    if scored.height < MIN_PEOPLE:
        raise ContractError(
            f"Version {version} has scored {scored.height} of the {people.height} people with a "
            f"known outcome; a report needs {MIN_PEOPLE}.",
            "Wait for more outcomes, or name the version that scored them with --version. The "
            "endpoint stores no scores: also score these people with `opboost score`.",
        )
    truth, task = scored.get_column(_LABEL).to_numpy(), facts["task"]
    prediction = scored.get_column(SCORE).to_numpy()
    matrix = prediction
    if task == "multiclass":
        names = [f"{PROBABILITY}{name}" for name in facts["classes"]]
        matrix = scored.select(names).to_numpy()
    with suppress(ValidationError), np.errstate(over="ignore", invalid="ignore"):
        figures = _figures(task, truth, prediction, matrix)
        outcomes = Outcomes(
            version=version,
            mode=mode,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            rows=len(ids),
            joined=scored.height,
            unknown=len(ids) - scored.height - labels.null_count(),
            open=labels.null_count(),
            **figures,
        )
        Home(site.home / federation).write_json(
            f"{OUTCOMES}/{version}", outcomes.model_dump(mode="json")
        )
        return outcomes
    raise ContractError(
        f"Some numbers of the label {label.column} are too large for a mean or a square.",
        "Correct them in the table of outcomes.",
    )


def _figures(
    task: Task, truth: np.ndarray, prediction: np.ndarray, matrix: np.ndarray
) -> dict[str, Any]:
    compared = Comparison(task, truth, {OUTCOMES: matrix})
    metrics = {name: compared.interval(OUTCOMES, name) for name in compared.names()}
    outcome = truth
    if task == "multiclass":
        outcome = (matrix.argmax(axis=1) == truth).astype(np.float64)
    return {
        "score": float(prediction.mean()),
        "observed": _observed(task, outcome),
        "metrics": metrics,
        "groups": _groups(task, outcome, prediction),
    }


def _people(
    table: pl.DataFrame, federation: Federation, label: Label, policy: Policy
) -> tuple[pl.Series, pl.Series]:
    """Return IDs, one row per person, and labels, null for unknown outcomes."""
    identity = federation.id
    raw = {n: policy.raw_column(n, identity.column) for n in (*identity.parts, label.column)}
    there = match_names(raw, table.columns)
    if absent := [raw[name] for name in raw if name not in there]:
        raise ContractError(
            f"The table of outcomes has no column {', '.join(absent)}.",
            "It needs the ID and the label, named as in the training table.",
        )
    if not table.height:
        raise ContractError("The table of outcomes has no rows.", "Nothing was changed.")
    parts = {name: table.get_column(there[name]) for name in identity.parts}
    ids = person_ids(parts, identity) if identity.is_made else parts[identity.column]
    if identity.type == "integer" and ids.dtype == pl.String:
        ids = ids.cast(pl.Int64, strict=False)
    fits = ids.dtype.is_integer() if identity.type == "integer" else ids.dtype == pl.String
    for wrong, what in (
        (0 if fits else len(ids), f"an ID that is not of type {identity.type}"),
        (ids.null_count(), f"no ID of type {identity.type}"),
        (int(ids.is_duplicated().sum()), "an ID that another row has, too"),
    ):
        if wrong:
            raise ContractError(
                f"{wrong:,} of {len(ids):,} rows of the table of outcomes have {what}.",
                "Correct the table: one row per person, with the last outcome.",
            )
    labels = table.get_column(there[label.column])
    return ids, labels.fill_nan(None) if labels.dtype.is_float() else labels


def _encoded(values: pl.Series, label: Label, classes: list[str | int]) -> np.ndarray:
    """Encode known labels as in the version's training."""
    if not classes and (numbers := values.cast(pl.Float64, strict=False)).null_count() == 0:
        require_moderate(numbers.to_numpy(), label.column)
    with suppress(ContractError, pl.exceptions.PolarsError):
        encoded, _ = encode_label(
            values, label.model_copy(update={"classes": classes or None}), None
        )
        if np.isfinite(encoded).all():
            return encoded
    expected = f"one of {', '.join(map(str, classes))}" if classes else "a number"
    raise ContractError(
        f"The label {label.column} of the table of outcomes is not {expected} everywhere.",
        "Correct it; leave cells of unknown outcomes empty.",
    )


def _scores(
    paths: list[Path], identity: str, people: pl.DataFrame, version: str, mode: str
) -> pl.DataFrame:
    """Return each person's first score, because later scores may depend on the outcome."""
    if not paths:
        raise ContractError(
            f"Version {version} has no scores in mode {mode}.",
            "Name another version with --version, or score new rows with `opboost score`.",
        )
    ids = people.lazy().select(_ID)
    frames: list[pl.DataFrame] = []
    for path in sorted(paths, key=lambda each: each.stat().st_mtime):
        whole = scan(path).with_columns(pl.col(identity).cast(pl.String).alias(_ID))
        scores = whole.join(ids, on=_ID, how="semi").select(
            _ID, SCORE, pl.col(f"^{PROBABILITY}.*$")
        )
        with suppress(pl.exceptions.PolarsError, OSError):
            frames.append(scores.collect())
            continue
        raise ContractError(
            f"The file of scores {path.name} cannot be read.",
            "Restore it from a copy, or remove it: its people then count as not scored.",
        )
    return pl.concat(frames, how="diagonal").unique(_ID, keep="first", maintain_order=True)


def _groups(task: Task, outcome: np.ndarray, score: np.ndarray) -> tuple[Group, ...]:
    order = np.argsort(score, kind="stable")
    parts = np.array_split(order, min(_GROUPS, len(order) // MIN_PEOPLE))
    return tuple(
        Group(rows=len(at), score=float(score[at].mean()), observed=_observed(task, outcome[at]))
        for at in parts
    )


def _observed(task: Task, outcome: np.ndarray) -> Interval:
    """Return a share with Wilson's interval, or a mean with the interval of a normal."""
    count, mean = len(outcome), float(outcome.mean())
    if task == "regression":
        half = _Z * float(outcome.std(ddof=1)) / count**0.5
        return Interval(mean, low=mean - half, high=mean + half)
    low, high = wilson(int(outcome.sum()), count)
    return Interval(mean, low=low, high=high)

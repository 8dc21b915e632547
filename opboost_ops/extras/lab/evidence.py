"""Evidence for dividing a loss over columns: a public sample or declared importances."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from opboost_ops.config.agreement import STANDARD, is_standard, table_digest, table_text
from opboost_ops.config.feature import Feature, Fill
from opboost_ops.config.federation import Federation
from opboost_ops.config.training import LightGBMTraining
from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.learning.boosters.backend import Frame, Parameters, folds
from opboost_ops.learning.tuning import FOLDS, out_of_fold_predictions
from opboost_ops.mechanisms import Mechanism
from opboost_ops.mechanisms.designed import Designed, Table
from opboost_ops.pipeline.inputs import raw_table
from opboost_ops.pipeline.inputs.model_columns import encode_label, own_columns
from opboost_ops.privacy.division import Evidence, independent, sampled
from opboost_ops.privacy.planner import Caps
from opboost_ops.tables.local import read_rows

#: Maximum rows of a sample that are used, and the minimum that are needed.
_ROWS, _LEAST_ROWS = 10_000, 100


@dataclass(frozen=True)
class Request:
    """A loss to divide, and one kind of evidence.

    Attributes:
        total: Caps on the sum over all columns.
        sample: File of public rows with the columns and the label.
        importances: Weights by feature.
        reach: If set, use the minimum loss that reaches this share of the unprotected gain.
        out: Folder of picture and channels. Default: the working folder.
        rescale: Whether to choose cells as well, by a sample.
    """

    total: Caps
    sample: Path | None = None
    importances: Mapping[str, float] = field(default_factory=dict)
    reach: float | None = None
    out: Path | None = None
    rescale: bool = False


@dataclass(frozen=True)
class Basis:
    """The evidence of a division, and its description.

    Attributes:
        by: Name of the kind of evidence.
        lead: Sentence on the evidence.
        evidence: The evidence on the columns.
        domains: Domains of the columns, in the same order.
        beyond_own: Whether columns are judged beyond the label holder's own columns.
    """

    by: str
    lead: str
    evidence: Evidence
    domains: tuple[Domain, ...]
    beyond_own: bool = False


def evidence_for(declared: Federation, party: str, request: Request) -> Basis:
    """Return the evidence for a division.

    Args:
        declared: The declared federation.
        party: The feature holder.
        request: The loss to divide, and the kind of evidence.

    Raises:
        ConfigError: There is not exactly one kind of evidence, or it is invalid.
        ContractError: The sample lacks a column or has too few rows.
    """
    if (request.sample is not None) == bool(request.importances):
        raise ConfigError(
            "A division needs either a public sample or declared importances.",
            "Pass --sample with public rows of all columns and the label, or --importance for each "
            "feature; never the party's own table.",
        )
    names = _names(declared, party)
    if request.importances:
        require_weights(request.importances, "--importance", names)
        domains = _domains(declared, party, list(request.importances))
        evidence = independent(request.importances, [domain.size for domain in domains])
        lead = "Proposed by declared importances, assuming that columns are independent."
        return Basis("declared importances", lead, evidence, domains)
    assert request.sample is not None
    evidence, beyond = of_sample(declared, party, request.sample, names)
    lead = f"Proposed by the public sample {request.sample.name}."
    if beyond:
        lead += " Columns are judged by what they add to the label holder's own columns in it."
    return Basis("public sample", lead, evidence, _domains(declared, party, names), beyond)


def _domains(declared: Federation, party: str, names: list[str]) -> tuple[Domain, ...]:
    features, common = declared.parties[party].features, declared.domain.to_domain()
    return tuple(features[name].domain_in(common) for name in names)


def _names(declared: Federation, party: str) -> list[str]:
    features = declared.parties[party].features
    names = [name for name, feature in features.items() if feature.type != "nominal"]
    if not names:
        raise ConfigError(f"{party} has only nominal features: each has its own epsilon.")
    return names


def of_sample(
    declared: Federation, party: str, sample: Path, names: list[str]
) -> tuple[Evidence, bool]:
    """Return evidence from a sample, and whether it is beyond the label holder's own columns.

    Args:
        declared: The declared federation.
        party: The feature holder.
        sample: File of public rows with the label.
        names: Columns that are not nominal.

    Raises:
        ContractError: The sample lacks a column or has too few rows.
    """
    frame = read_rows(sample)
    label = declared.parties[declared.label_holder].label
    assert label is not None
    if label.column not in frame.columns:
        raise ContractError(
            f"{sample.name} has no column {label.column}, which is the label.",
            "Add it, or declare --importance for each feature instead.",
        )
    frame = frame.filter(frame.get_column(label.column).is_not_null()).head(_ROWS)
    features = declared.parties[party].features
    raw = {n: public_numbers(frame, n, features[n], sample.name) for n in names}
    whole = np.logical_and.reduce([np.isfinite(values) for values in raw.values()])
    if whole.sum() < _LEAST_ROWS:
        raise ContractError(
            f"{sample.name} has {int(whole.sum())} rows with the label and all columns.",
            f"A division needs at least {_LEAST_ROWS} of them; thousands are better.",
        )
    target, classes = encode_label(frame.get_column(label.column).filter(whole), label, None)
    domains = _domains(declared, party, names)
    codes = np.column_stack(
        [
            features[n].domain_map(domain).encode(raw[n][whole]) - domain.lower
            for n, domain in zip(names, domains, strict=True)
        ]
    )
    if not np.ptp(target) > 0:
        raise ContractError(f"The label of {sample.name} is the same in all rows.")
    baseline = _own_predictions(declared, names, frame.filter(whole), target, len(classes))
    size = max(domain.size for domain in domains)
    evidence = sampled(names, codes, target, len(classes), size, baseline)
    return evidence, baseline is not None


def _own_predictions(
    declared: Federation, names: list[str], rows: pl.DataFrame, target: np.ndarray, classes: int
) -> np.ndarray | None:
    """Predict by the label holder's own columns in a sample; return None if it has none of them.

    Returns cross-validated predictions, shape (n,) in regression, otherwise (n, classes).
    """
    owner = declared.parties[declared.label_holder]
    assert owner.label is not None
    features = {
        name: feature
        for name, feature in owner.features.items()
        if name in rows.columns and name not in names
    }
    if not features:
        return None
    federation = declared.model_copy(
        update={"parties": {declared.label_holder: owner.model_copy(update={"features": features})}}
    )
    full = {name: f"{declared.label_holder}.{name}" for name in features}
    nominal = [full[name] for name, feature in features.items() if feature.type == "nominal"]
    categories = {
        full[name]: rows.get_column(name).cast(pl.String).drop_nulls().unique().sort().to_list()
        for name in features
        if full[name] in nominal
    }
    columns = own_columns(federation, rows, categories)
    matrix = np.asfortranarray(np.column_stack([*columns.values()]))
    frame = Frame(tuple(columns), matrix, tuple(nominal), ())
    usual = LightGBMTraining()
    parameters = Parameters(
        owner.label.task, classes, usual.trees, usual.learning_rate, usual.depth, seed=0
    )
    part = folds(target, FOLDS, 0, "what own columns say")
    scores = out_of_fold_predictions(frame, target, parameters, part)
    return np.column_stack([1 - scores, scores]) if owner.label.task == "binary" else scores


def declaration(mechanism: Mechanism, folder: Path) -> dict[str, Any]:
    """Return the ``mechanism`` entry, and write a designed channel's table into a file.

    Args:
        mechanism: The proposed mechanism.
        folder: Folder of the file, which is written unless it exists.
    """
    entry = mechanism.model_dump(mode="json", exclude_none=True)
    if not isinstance(mechanism, Designed):
        return entry
    assert isinstance(mechanism.table, Table)
    if is_standard(mechanism.table):
        return {**entry, "table": STANDARD["table"]}
    file = folder / f"channel-{table_digest(mechanism.table)[:16]}.json"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        origin = {"epsilon": mechanism.epsilon, "most": mechanism.most, "cost": "absolute"}
        file.write_text(table_text(mechanism.table, {**origin, "prior": "even"}), encoding="utf-8")
    return {**entry, "table": file.name}


def public_numbers(frame: pl.DataFrame, name: str, feature: Feature, file: str) -> np.ndarray:
    """Return a feature's column of a public sample as numbers, with missing values filled.

    Raises:
        ContractError: The column is missing, or does not fit the declaration.
    """
    if name not in frame.columns:
        raise ContractError(f"{file} has no column {name}.", "Add it to the sample.")
    values = raw_table.numbers(frame.get_column(name), feature)
    if isinstance(feature.missing, Fill) and isinstance(feature.missing.fill, int | float):
        values = np.where(np.isfinite(values), values, float(feature.missing.fill))
    return values


def require_weights(weights: Mapping[str, float], what: str, names: Sequence[str]) -> None:
    """Check weights by feature.

    Args:
        weights: Weights by feature.
        what: Name of the option, for the error.
        names: Valid features.

    Raises:
        ConfigError: A feature is unknown, or a weight is not a number above 0.
    """
    for name, number in weights.items():
        if name not in names:
            raise ConfigError(
                f"{what} takes NAME=NUMBER, but there is no feature {name}.",
                f"Choose from {', '.join(names)}.",
            )
        if not (math.isfinite(number) and number > 0):
            raise ConfigError(f"{what} {name} is not a number above 0.")

"""Evidence by which a loss is divided: a public sample or declared importances."""

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
from opboost_ops.pipeline.steps.assemble import encode_label, own_columns
from opboost_ops.privacy.division import Evidence, independent, sampled
from opboost_ops.privacy.planner import Caps
from opboost_ops.tables.local import read_rows

#: Rows of a sample that are looked at, and the least that say anything.
_ROWS, _LEAST_ROWS = 10_000, 100


@dataclass(frozen=True)
class Request:
    """A loss to divide, and the one kind of evidence to divide it by.

    Attributes:
        total: Caps on the sum over all columns.
        sample: Public rows with the columns and the label.
        importances: A weight of each feature.
        reach: Share of what unprotected columns tell for which the least loss is looked for.
        out: Where picture and channels go; the working folder when absent.
        rescale: Whether cells are chosen, too, by a sample.
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
        by: In a word.
        lead: The same in a sentence.
        evidence: What is known of the columns.
        domains: Theirs, in the same order.
        beyond_own: Whether columns are judged by what the label holder's own columns leave.
    """

    by: str
    lead: str
    evidence: Evidence
    domains: tuple[Domain, ...]
    beyond_own: bool = False


def evidence_for(declared: Federation, party: str, request: Request) -> Basis:
    """The evidence that a division goes by.

    Args:
        declared: The federation.
        party: The feature holder.
        request: What is to be divided.

    Raises:
        ConfigError: Not by one thing alone, or it is no such thing.
        ContractError: A sample lacks something.
    """
    if (request.sample is not None) == bool(request.importances):
        raise ConfigError(
            "A division needs either a public sample or declared importances.",
            "Give --sample with public rows of all columns and the label, or --importance for each "
            "feature; never the party's own table.",
        )
    names = _names(declared, party)
    if request.importances:
        require_weights(request.importances, "--importance", names)
        domains = _domains(declared, party, list(request.importances))
        evidence = independent(request.importances, [domain.size for domain in domains])
        lead = "Proposed by declared importances, of columns that say unrelated things."
        return Basis("declared importances", lead, evidence, domains)
    assert request.sample is not None
    evidence, beyond = of_sample(declared, party, request.sample, names)
    lead = f"Proposed by the public sample {request.sample.name}."
    if beyond:
        lead += " Columns are judged by what the label holder's own columns in it do not say."
    return Basis("public sample", lead, evidence, _domains(declared, party, names), beyond)


def _domains(declared: Federation, party: str, names: list[str]) -> tuple[Domain, ...]:
    features, common = declared.parties[party].features, declared.domain.to_domain()
    return tuple(features[name].domain_in(common) for name in names)


def _names(declared: Federation, party: str) -> list[str]:
    features = declared.parties[party].features
    names = [name for name, feature in features.items() if feature.type != "nominal"]
    if not names:
        raise ConfigError(f"{party} has nominal features alone: each has its own epsilon.")
    return names


def of_sample(
    declared: Federation, party: str, sample: Path, names: list[str]
) -> tuple[Evidence, bool]:
    """Evidence of a sample, and whether it is of what the label holder's own columns leave.

    Args:
        declared: The federation.
        party: The feature holder.
        sample: Public rows with the label.
        names: Columns that are not nominal.

    Raises:
        ContractError: The sample lacks something.
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
            f"A division needs {_LEAST_ROWS} of them, and better thousands.",
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
    baseline = _known(declared, names, frame.filter(whole), target, len(classes))
    size = max(domain.size for domain in domains)
    evidence = sampled(names, codes, target, len(classes), size, baseline)
    return evidence, baseline is not None


def _known(
    declared: Federation, names: list[str], rows: pl.DataFrame, target: np.ndarray, classes: int
) -> np.ndarray | None:
    """Predictions by the label holder's own columns in a sample; None where it has none of them.

    Shape (n,), of two classes (n, 2), of more (n, classes); by models of other rows.
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
    """The ``mechanism`` entry; a designed channel's table goes into a file.

    Args:
        mechanism: What is proposed.
        folder: Where the file goes, if there is none of the same table.
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
    """A feature's column of a public sample as numbers, its gaps filled as declared.

    Raises:
        ContractError: There is no such column, or it is no such feature.
    """
    if name not in frame.columns:
        raise ContractError(f"{file} has no column {name}.", "Add it to the sample.")
    values = raw_table.numbers(frame.get_column(name), feature)
    if isinstance(feature.missing, Fill) and isinstance(feature.missing.fill, int | float):
        values = np.where(np.isfinite(values), values, float(feature.missing.fill))
    return values


def require_weights(weights: Mapping[str, float], what: str, names: Sequence[str]) -> None:
    """Check numbers that are given by feature.

    Args:
        weights: By feature.
        what: What they are, for the error.
        names: Which features there may be.

    Raises:
        ConfigError: One is no such feature, or no number above 0.
    """
    for name, number in weights.items():
        if name not in names:
            raise ConfigError(
                f"{what} takes NAME=NUMBER, and {name} is not one of its features.",
                f"They are {', '.join(names)}.",
            )
        if not (math.isfinite(number) and number > 0):
            raise ConfigError(f"{what} {name} is not a number above 0.")

"""By what `opboost plan` divides a loss: a public sample, declared importances or a pilot."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opboost_ops.errors import ConfigError, ContractError

if TYPE_CHECKING:
    from opboost_ops.cli.plan_columns import Asked
    from opboost_ops.config.federation import Federation
    from opboost_ops.privacy.division import Evidence
    from opboost_ops.privacy.planner import Caps

#: Said with what a pilot proposes: it is no more made of released values alone.
LABELS = (
    "A proposal by a pilot depends on the label holder's own labels, too: whoever is shown it, as "
    "in the next federation file, learns which columns go with them."
)

#: Rows of a sample that are looked at, and the least that say anything.
_ROWS, _LEAST_ROWS = 10_000, 100


@dataclass(frozen=True)
class Given:
    """By what a division is made.

    Attributes:
        by: In a word.
        lead: The same in a sentence.
        evidence: What is known of the columns.
        total: What is divided.
        out: Where picture and channels go.
        federation: Whose domain and features they are.
        pilot: What is told of a pilot; nothing without one.
    """

    by: str
    lead: str
    evidence: "Evidence"
    total: "Caps"
    out: Path
    federation: "Federation"
    pilot: Mapping[str, Any]


def given(declared: "Federation", asked: "Asked") -> Given:
    """By what a division is asked for.

    Args:
        declared: The federation.
        asked: What for.

    Raises:
        ConfigError: Not by one thing alone, or it is no such thing.
        ContractError: A sample lacks something.
    """
    from opboost_ops.cli.plan_files import pairs
    from opboost_ops.privacy.division import independent

    ways = (asked.sample is not None, bool(asked.importances), asked.pilot is not None)
    if sum(ways) != 1:
        raise ConfigError(
            "A division goes by a public sample or by declared importances or by a pilot, one of "
            "them.",
            "Give --sample with public rows of all columns and the label, --importance for each "
            "feature, or --pilot with a run at the label holder; never the party's own table.",
        )
    if asked.pilot is not None:
        return _of_pilot(declared, asked, asked.pilot)
    names, out, total = _names(declared, asked.party), asked.out or Path(), asked.total
    assert total is not None
    if asked.importances:
        known = pairs(list(asked.importances), "--importance", names)
        evidence = independent(known, declared.domain.to_domain().size)
        lead = "Proposed by declared importances, of columns that say unrelated things."
        return Given("declared importances", lead, evidence, total, out, declared, {})
    assert asked.sample is not None
    evidence = _of_sample(declared, asked, names)
    lead = f"Proposed by the public sample {asked.sample.name}."
    return Given("public sample", lead, evidence, total, out, declared, {})


def _names(declared: "Federation", party: str) -> list[str]:
    features = declared.parties[party].features
    names = [name for name, feature in features.items() if feature.type != "nominal"]
    if not names:
        raise ConfigError(f"{party} has nominal features alone: each has its own epsilon.")
    return names


def _of_pilot(declared: "Federation", asked: "Asked", run: str) -> Given:
    from opboost_ops.cli.earlier_runs import piloted
    from opboost_ops.config.columns import columns_of
    from opboost_ops.privacy.accountant import exact, total
    from opboost_ops.privacy.loss import column_losses
    from opboost_ops.run.received import evidence_from

    found, caps = piloted(asked.file, declared, asked.party, run, asked.total)
    planned = found.federation
    evidence = evidence_from(found, asked.party, _names(planned, asked.party))
    curves = column_losses(columns_of(planned, asked.party)).values()
    sums = {
        name: total(exact(curve.loss[at]) for curve in curves)
        for name, at in (("loss_1", 0), ("loss_whole", -1))
    }
    paid = {name: "inf" if loss == math.inf else float(loss) for name, loss in sums.items()}
    told = {"pilot": {"run": run, **paid}, "depends_on": LABELS}
    lead = f"Proposed by the pilot {run}. {LABELS}"
    return Given("a pilot", lead, evidence, caps, asked.out or found.folder, planned, told)


def _of_sample(declared: "Federation", asked: "Asked", names: list[str]) -> "Evidence":
    import numpy as np

    from opboost_ops.cli.plan_files import public_numbers, public_rows
    from opboost_ops.privacy.division import sampled
    from opboost_ops.stages.assemble import encode_label

    assert asked.sample is not None
    frame = public_rows(asked.sample)
    label = declared.parties[declared.label_holder].label
    assert label is not None
    if label.column not in frame.columns:
        raise ContractError(
            f"{asked.sample.name} has no column {label.column}, which is the label.",
            "Add it, or declare --importance for each feature instead.",
        )
    frame = frame.filter(frame.get_column(label.column).is_not_null()).head(_ROWS)
    domain = declared.domain.to_domain()
    features = declared.parties[asked.party].features
    raw = {n: public_numbers(frame, n, features[n], asked.sample.name) for n in names}
    whole = np.logical_and.reduce([np.isfinite(values) for values in raw.values()])
    if whole.sum() < _LEAST_ROWS:
        raise ContractError(
            f"{asked.sample.name} has {int(whole.sum())} rows with the label and all columns.",
            f"A division needs {_LEAST_ROWS} of them, and better thousands.",
        )
    target, classes = encode_label(frame.get_column(label.column).filter(whole), label, None)
    codes = np.column_stack(
        [features[n].domain_map(domain).encode(raw[n][whole]) - domain.lower for n in names]
    )
    if not np.ptp(target) > 0:
        raise ContractError(f"The label of {asked.sample.name} is the same in all rows.")
    return sampled(names, codes, target, len(classes), domain.size)

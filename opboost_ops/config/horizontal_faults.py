"""What is wrong with a federation file of horizontal learning."""

from collections.abc import Iterator

from opboost_ops.config.feature_faults import category_faults, public_map_faults
from opboost_ops.config.federation import Federation
from opboost_ops.config.private_faults import sum_faults
from opboost_ops.config.training import HoldoutColumn
from opboost_ops.errors import Fault

#: With two parties the sum gives the other one away; the most are what was tried.
FEWEST, MOST = 3, 32


def horizontal_faults(federation: Federation) -> Iterator[Fault]:
    """Everything that is wrong with a federation of horizontal learning.

    Args:
        federation: As parsed.

    Yields:
        One fault after the other.
    """
    count = len(federation.parties)
    if not FEWEST <= count <= MOST:
        yield Fault(
            "parties",
            f"are {count}, and secure aggregation takes {FEWEST} to {MOST}",
            "of two, each would learn the other's sums",
        )
    features = {name: spec.at_a_party() for name, spec in federation.features.items()}
    for name, party in federation.parties.items():
        where = f"parties.{name}"
        if party.role != "label_holder":
            yield Fault(f"{where}.role", "is feature_holder", "in horizontal learning every party "
                        "holds labels: write label_holder")  # fmt: skip
        for key, common in (("label", federation.label), ("features", features)):
            own = getattr(party, key)
            # A plan has them at each party, too.
            if own and own != common:
                yield Fault(f"{where}.{key}", "is declared once for all parties",
                            f"move it to {key}, outside of parties")  # fmt: skip
    alignment = federation.alignment
    if alignment.overlap == "left":
        yield Fault(
            "alignment",
            "is only for vertical learning",
            "the parties have other people: leave it out",
        )
    if federation.training.trainer == "federboost":
        if federation.training.active not in federation.parties:
            known = ", ".join(federation.parties)
            yield Fault("training.active", "names no party", f"choose one of {known}")
        yield from sum_faults(federation)
    scoring = federation.scoring
    if ("mode" in scoring.model_fields_set and scoring.mode != "local") or scoring.evaluate:
        yield Fault("scoring", "has a mode other than local",
                    "in horizontal learning every party scores its own rows at home")  # fmt: skip
    yield from _label_faults(federation)
    yield from _feature_faults(federation)


def _label_faults(federation: Federation) -> Iterator[Fault]:
    label = federation.label
    if label is None:
        yield Fault("label", "is required of horizontal learning", "declare the common target")
        return
    column = federation.training.holdout
    if isinstance(column, HoldoutColumn) and column.column == label.column:
        yield Fault("training.holdout.column", "is the label", "name another column")
    if label.task == "regression":
        if label.bounds is None or not label.bounds[0] < label.bounds[1]:
            yield Fault("label.bounds", "is required: a public lower and a greater upper bound",
                        "for example [0, 100]")  # fmt: skip
        return
    if label.bounds is not None:
        yield Fault("label.bounds", "is only for regression", "remove it")
    known = len(set(label.classes or ()))
    if known < 2 or known < len(label.classes or ()) or (label.task == "binary" and known != 2):
        needs = "two" if label.task == "binary" else "two or more"
        yield Fault("label.classes", "is required of horizontal learning, where nobody sees all",
                    f"list the {needs} classes")  # fmt: skip


def _feature_faults(federation: Federation) -> Iterator[Fault]:
    if not federation.features:
        yield Fault("features", "is required of horizontal learning", "declare the common columns")
    for name, feature in federation.features.items():
        where = f"features.{name}"
        if federation.label and name == federation.label.column:
            yield Fault(where, "is the label", "a label is never a feature")
        if "=" in name:
            yield Fault(
                where, "holds =, which joins a feature and its category", "rename the column"
            )
        if feature.type == "nominal":
            yield from category_faults(where, feature.categories or ())
            if feature.missing == "keep":
                yield Fault(
                    f"{where}.missing",
                    "is keep, and a category's bits have no room for it",
                    "declare a category of its own, and fill with that",
                )
        else:
            yield from public_map_faults(where, feature, federation.domain.to_domain())

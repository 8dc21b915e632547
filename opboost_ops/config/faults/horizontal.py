"""Faults of a federation file of horizontal learning."""

from collections.abc import Iterator

from opboost_ops.config.faults.features import (
    category_faults,
    own_feature_faults,
    public_map_faults,
)
from opboost_ops.config.faults.private import sum_faults
from opboost_ops.config.federation import Federation
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
    active = [name for name, party in federation.parties.items() if party.role == "active"]
    if len(active) != 1:
        yield Fault("parties", f"has {len(active)} active parties", "exactly one is needed")
    for name, party in federation.parties.items():
        where = f"parties.{name}"
        if party.role not in ("active", "passive"):
            yield Fault(
                f"{where}.role",
                f"is {party.role}, which is for vertical learning",
                "write active for the party that opens runs, passive for the others",
            )
        for key in ("label", "features") if party.role == "passive" and active else ():
            own = getattr(party, key)
            # A plan has them at each party, too.
            if own and own != getattr(federation.parties[active[0]], key):
                yield Fault(f"{where}.{key}", "is declared once for all parties",
                            f"move it to {active[0]}, the active party")  # fmt: skip
    alignment = federation.alignment
    if alignment.overlap == "left":
        yield Fault(
            "alignment",
            "is only for vertical learning",
            "the parties have other people: leave it out",
        )
    if federation.training.trainer == "federboost":
        yield from sum_faults(federation)
    scoring = federation.scoring
    if ("mode" in scoring.model_fields_set and scoring.mode != "local") or scoring.evaluate:
        yield Fault("scoring", "has a mode other than local",
                    "in horizontal learning every party scores its own rows at home")  # fmt: skip
    if len(active) == 1:
        yield from _label_faults(federation, f"parties.{active[0]}.label")
        yield from _feature_faults(federation, f"parties.{active[0]}.features")


def _label_faults(federation: Federation, where: str) -> Iterator[Fault]:
    label = federation.label
    if label is None:
        yield Fault(where, "is required of horizontal learning", "declare the common target")
        return
    if label.task == "regression":
        if label.bounds is None or not label.bounds[0] < label.bounds[1]:
            yield Fault(f"{where}.bounds", "is required: a public lower and a greater upper bound",
                        "for example [0, 100]")  # fmt: skip
        return
    if label.bounds is not None:
        yield Fault(f"{where}.bounds", "is only for regression", "remove it")
    class_count = len(set(label.classes or ()))
    if (
        class_count < 2
        or class_count < len(label.classes or ())
        or (label.task == "binary" and class_count != 2)
    ):
        needs = "two" if label.task == "binary" else "two or more"
        yield Fault(f"{where}.classes", "is required of horizontal learning, where nobody sees all",
                    f"list the {needs} classes")  # fmt: skip


def _feature_faults(federation: Federation, inside: str) -> Iterator[Fault]:
    if not federation.shared_features:
        yield Fault(inside, "is required of horizontal learning", "declare the common columns")
    for name, feature in federation.shared_features.items():
        where = f"{inside}.{name}"
        if federation.label and name == federation.label.column:
            yield Fault(where, "is the label", "a label is never a feature")
        if "=" in name:
            yield Fault(
                where, "holds =, which joins a feature and its category", "rename the column"
            )
        if feature.mechanism is not None:
            yield Fault(
                f"{where}.mechanism", "is not for horizontal learning: no cell leaves", "remove it"
            )
        yield from own_feature_faults(where, feature)
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

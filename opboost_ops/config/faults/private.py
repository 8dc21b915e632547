"""Faults of a federation file for a private model: every possible split must be declared."""

from collections.abc import Iterator

from opboost_ops.config.faults.features import public_map_faults
from opboost_ops.config.federation import Federation, Label
from opboost_ops.config.training import FederBoostTraining, SumPrivacy
from opboost_ops.errors import Fault

#: Every edge between two values is a candidate split of every feature.
_WIDEST = 4096

#: Greatest learning rate of private sums: ten trees of a round take their steps together.
_STEEPEST = 0.2


def honest_of(federation: Federation) -> int:
    """Of how many parties the noise of a sum is counted: h = n - kappa.

    Args:
        federation: With noisy sums.
    """
    private = sum_privacy_of(federation)
    assert private is not None
    return len(federation.parties) - (private.colluding or 1)


def sum_faults(federation: Federation) -> Iterator[Fault]:
    """Faults of ``training.private`` in horizontal learning.

    Args:
        federation: As parsed.

    Yields:
        One fault after the other.
    """
    private, where = sum_privacy_of(federation), "training.private"
    if private is None:
        return
    if honest_of(federation) < 1:
        yield Fault(
            f"{where}.colluding",
            f"leaves no honest party among {len(federation.parties)}",
            "declare fewer",
        )
    rate = federation.training.learning_rate
    if rate > _STEEPEST:
        yield Fault("training.learning_rate",
                    f"is {rate:g}, but private trees take ten steps at once",
                    f"declare at most {_STEEPEST:g}, or remove it")  # fmt: skip
    if federation.label is not None and federation.label.task == "multiclass":
        yield Fault("label.task", "is multiclass, and private sums learn two classes or a number",
                    "declare training.private: none, or another label")  # fmt: skip


def sum_privacy_of(federation: Federation) -> SumPrivacy | None:
    """The noise settings of horizontal learning's sums; None where the sums are exact.

    Args:
        federation: As declared.
    """
    training = federation.training
    return training.private if isinstance(training, FederBoostTraining) else None


def dpboost_faults(federation: Federation) -> Iterator[Fault]:
    """Everything for which candidate splits or labels would have to be read off the data.

    Args:
        federation: As parsed.

    Yields:
        One fault after the other.
    """
    for place, declared_domain in federation.domains.items():
        if declared_domain.size > _WIDEST:
            yield Fault(
                place,
                f"has more than {_WIDEST:,} values, each a candidate split for dpboost",
                "declare a smaller one",
            )
    domain = federation.domain.to_domain()
    for name, party in federation.parties.items():
        if party.role != "label_holder":
            continue
        where = f"parties.{name}"
        if party.label is not None:
            yield from _label_faults(f"{where}.label", party.label)
        for feature, declared in party.features.items():
            place = f"{where}.features.{feature}"
            if declared.missing == "keep":
                yield Fault(
                    f"{place}.missing",
                    "is keep, but dpboost takes no missing numbers",
                    "declare a fill",
                )
            if declared.type != "nominal":
                yield from public_map_faults(place, declared, domain)
            elif not declared.categories:
                yield Fault(
                    f"{place}.categories",
                    "is required for dpboost: candidate splits are not read from the data",
                    "list all its categories; they are public",
                )


def _label_faults(where: str, label: Label) -> Iterator[Fault]:
    if label.task == "multiclass":
        yield Fault(
            f"{where}.task",
            "is multiclass, and dpboost learns two classes or a number",
            "declare trainer: lightgbm, or another label",
        )
    elif label.task == "binary" and not label.classes:
        yield Fault(
            f"{where}.classes",
            "is required for dpboost: classes must not be read from the labels",
            "list both, the positive one last",
        )
    elif label.task == "regression" and label.bounds is None:
        yield Fault(
            f"{where}.bounds",
            "is required for dpboost: public bounds, not read from the labels",
            "for example [0, 100]",
        )
    elif label.bounds is not None and label.bounds[0] >= label.bounds[1]:
        yield Fault(f"{where}.bounds", "the lower bound is not less than the upper bound")

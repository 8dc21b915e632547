"""What a federation file lacks for DPBoost: whatever a split may be, it is declared."""

from collections.abc import Iterator

from opboost_ops.config.feature import Feature
from opboost_ops.config.federation import Federation, PrivateTraining
from opboost_ops.errors import ConfigError, Fault

#: A complete tree has 2^depth leaves, and each of them shares the noise.
_DEEPEST = 10
#: Every edge between two values is a candidate split of every feature.
_WIDEST = 4096

#: Entries of ``training.private`` that DPBoost does not have.
HORIZONTAL_PRIVATE = ("delta", "remain", "patience_minutes", "colluding", "columns")

#: With two parties the sum gives the other one away.
_FEWEST = 3


def summed_faults(federation: Federation) -> Iterator[Fault]:
    """What is wrong with ``training.private`` in horizontal learning.

    Args:
        federation: As parsed.

    Yields:
        One fault after the other.
    """
    private, where = federation.training.private, "training.private"
    if private is None:
        return
    if private.delta is None:
        yield Fault(f"{where}.delta", "is required of horizontal learning",
                    "less than 1 / rows of all parties, for example 1e-6")  # fmt: skip
    defaults = PrivateTraining(epsilon=private.epsilon)
    for key in ("trees_per_ensemble", "regularisation", "splits"):
        if getattr(private, key) != getattr(defaults, key):
            yield Fault(f"{where}.{key}", "is DPBoost's", "take it out")
    count = len(federation.parties)
    if (private.remain or count) > count:
        yield Fault(f"{where}.remain", f"is {private.remain}, of {count} parties",
                    "name at most as many as there are")  # fmt: skip
    elif honest_of(federation) < 1:
        yield Fault(
            f"{where}.colluding",
            f"leaves no party whose noise counts: remain - colluding is {honest_of(federation)}",
            "declare fewer, or more that remain",
        )
    else:
        yield from _drop_out_faults(federation)
    if federation.label is not None and federation.label.task == "multiclass":
        yield Fault("label.task", "is multiclass, and private sums learn two classes or a number",
                    "leave training.private out, or declare another label")  # fmt: skip


def may_drop_out(federation: Federation) -> bool:
    """Whether a session goes on without a party that is gone.

    Args:
        federation: As declared.
    """
    private, count = federation.training.private, len(federation.parties)
    horizontal = federation.learning == "horizontal"
    return horizontal and private is not None and (private.remain or count) < count


def patience_minutes_of(federation: Federation) -> float:
    """How long the active party waits for another before it goes on without it.

    Args:
        federation: With ``training.private``.
    """
    private, wait = federation.training.private, federation.training.wait_minutes or 15.0
    assert private is not None
    return wait / 3 if private.patience_minutes is None else private.patience_minutes


def _drop_out_faults(federation: Federation) -> Iterator[Fault]:
    private, where = federation.training.private, "training.private"
    assert private is not None
    count, kappa = len(federation.parties), private.colluding or 1
    if not may_drop_out(federation):
        if private.patience_minutes is not None:
            yield Fault(f"{where}.patience_minutes", "is declared, and no party may drop out",
                        "declare remain, or take it out")  # fmt: skip
        return
    remain = private.remain or count
    least = max(_FEWEST, (count + kappa) // 2 + 1)
    # Else the active party could tell two halves different things, and have both secrets of one
    # party opened.
    if remain < least:
        why = (
            f"at least {_FEWEST} parties have to remain"
            if remain < _FEWEST
            else f"2 x {remain} is not above parties + colluding, {count + kappa}"
        )
        yield Fault(
            f"{where}.remain",
            f"is {remain}, and {why}",
            f"declare {least} or more" if least < count else "take it out: no party may drop out",
        )
    wait = federation.training.wait_minutes or 15.0
    if 2 * patience_minutes_of(federation) >= wait:
        yield Fault(
            f"{where}.patience_minutes",
            f"is not below half of training.wait_minutes, {wait:g}, after which the others give up",
            "declare less, or more minutes to wait",
        )


def honest_of(federation: Federation) -> int:
    """Of how many parties the noise of a sum is counted: h = t - kappa.

    Args:
        federation: With ``training.private``.
    """
    private = federation.training.private
    assert private is not None
    return (private.remain or len(federation.parties)) - (private.colluding or 1)


def private_faults(federation: Federation) -> Iterator[Fault]:
    """Everything for which candidate splits or labels would have to be read off the data.

    Args:
        federation: As parsed.

    Yields:
        One fault after the other.
    """
    training = federation.training
    if training.trainer != "dpboost":
        if training.private is not None and training.trainer != "federboost":
            yield Fault(
                "training.private",
                f"is not for {training.trainer}",
                "leave it out, or declare trainer: dpboost",
            )
        return
    for key in HORIZONTAL_PRIVATE:
        if training.private is not None and getattr(training.private, key) is not None:
            yield Fault(f"training.private.{key}", "is only for horizontal learning", "take it out")
    if training.private is not None and training.private.splits == "random":
        defaults = PrivateTraining(epsilon=training.private.epsilon)
        for key in ("trees_per_ensemble", "regularisation"):
            if getattr(training.private, key) != getattr(defaults, key):
                yield Fault(
                    f"training.private.{key}",
                    "is declared, and with random splits every tree learns from all rows",
                    "take it out",
                )
    if training.private is None:
        yield Fault("training.private", "is required for dpboost", "for example {epsilon: 4.0}")
    if training.learning_rate >= 1:
        yield Fault("training.learning_rate", "is 1, and dpboost needs less", "for example 0.1")
    if training.depth > _DEEPEST:
        yield Fault("training.depth", f"is more than {_DEEPEST}", "dpboost's trees are complete")
    if federation.domain.to_domain().size > _WIDEST:
        yield Fault(
            "domain",
            f"has more than {_WIDEST:,} values, each a candidate split for dpboost",
            "declare a smaller one",
        )
    for name, party in federation.parties.items():
        if party.role != "label_holder":
            continue
        label = party.label
        where = f"parties.{name}"
        if label is not None and label.task == "multiclass":
            yield Fault(
                f"{where}.label.task",
                "is multiclass, and dpboost learns two classes or a number",
                "declare trainer: lightgbm, or another label",
            )
        if label is not None and label.task == "regression":
            if label.bounds is None:
                yield Fault(
                    f"{where}.label.bounds",
                    "is required for dpboost: public bounds, never read off the labels",
                    "for example [0, 100]",
                )
            elif label.bounds[0] >= label.bounds[1]:
                yield Fault(
                    f"{where}.label.bounds", "the lower bound is not less than the upper bound"
                )
        if label is not None and label.task == "binary" and not label.classes:
            yield Fault(
                f"{where}.label.classes",
                "is required for dpboost: which classes there are would be read off the labels",
                "list both, the positive one last",
            )
        for feature, declared in party.features.items():
            yield from _own(federation, f"{where}.features.{feature}", declared)


def _own(federation: Federation, where: str, feature: Feature) -> Iterator[Fault]:
    if feature.missing == "keep":
        yield Fault(
            f"{where}.missing",
            "is keep, and dpboost has no way for a missing number",
            "declare a fill",
        )
    if feature.type == "nominal" and not feature.categories:
        yield Fault(
            f"{where}.categories",
            "is required for dpboost: candidate splits are never read off the data",
            "list all its categories; they are public",
        )
    elif feature.type == "numeric" and feature.bounds is None:
        yield Fault(
            f"{where}.bounds",
            "is required for dpboost: candidate splits are never read off the data",
            "for example [0, 100]",
        )
    elif feature.type == "numeric" and feature.bounds and feature.bounds[0] < feature.bounds[1]:
        try:
            feature.domain_map(federation.domain.to_domain())
        except ConfigError as error:
            yield Fault(where, error.problem, error.remedy)

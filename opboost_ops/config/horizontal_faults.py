"""What is wrong with a federation file of horizontal learning."""

from collections.abc import Iterator, Sequence

from opboost_ops.config.column_names import LONGEST, column_name
from opboost_ops.config.feature import Feature, Fill
from opboost_ops.config.federation import Federation, HoldoutColumn, Label
from opboost_ops.config.private_faults import summed_faults
from opboost_ops.config.value_faults import value_faults
from opboost_ops.errors import ConfigError, Fault

#: Entries of ``training`` that vertical learning does not have.
HORIZONTAL_TRAINING = ("active", "buckets", "lambda_l2", "least_node", "wait_minutes")

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
    for name, party in federation.parties.items():
        where = f"parties.{name}"
        if party.role != "label_holder":
            yield Fault(f"{where}.role", "is feature_holder", "in horizontal learning every party "
                        "holds labels: write label_holder")  # fmt: skip
        for key, common in (("label", federation.label), ("features", federation.features)):
            own = getattr(party, key)
            # A plan has them at each party, too.
            if own and own != common:
                yield Fault(f"{where}.{key}", "is declared once for all parties",
                            f"move it to {key}, outside of parties")  # fmt: skip
    if federation.alignment.former not in ("", "keyed"):
        yield Fault(
            "alignment",
            "is only for vertical learning",
            "the parties have other people: leave it out",
        )
    yield from _training_faults(federation)
    yield from _label_faults(federation)
    if not federation.features:
        yield Fault("features", "is required of horizontal learning", "declare the common columns")
    uuids: dict[str, str] = {}
    for name, feature in federation.features.items():
        where = f"features.{name}"
        if name == federation.id.column:
            yield Fault(where, "is the ID column", "an ID is never a feature")
        if federation.label and name == federation.label.column:
            yield Fault(where, "is the label", "a label is never a feature")
        if str(feature.uuid) in uuids:
            yield Fault(f"{where}.uuid", f"is also that of {uuids[str(feature.uuid)]}",
                        "every column has its own, for ever")  # fmt: skip
        uuids[str(feature.uuid)] = where
        yield from _feature_faults(federation, name, feature)


def category_faults(where: str, categories: Sequence[str]) -> Iterator[Fault]:
    """What is wrong with categories of which each becomes a column.

    Args:
        where: Place of their feature.
        categories: As declared.
    """
    if len(categories) < 2:
        yield Fault(
            f"{where}.categories",
            "is required of a feature holder's nominal feature, and in horizontal learning",
            "list all its categories; they are public",
        )
    names: dict[str, str] = {}
    for i, category in enumerate(categories):
        name = column_name("", category)[1:]
        if not name or len(name) > LONGEST:
            yield Fault(
                f"{where}.categories.{i}",
                f"becomes a column's name, which has 1 to {LONGEST} characters",
                "map it to a shorter name by `mapping`",
            )
        elif names.setdefault(name, category) != category:
            yield Fault(
                f"{where}.categories.{i}",
                "becomes the same column's name as another category",
                "map it to another name by `mapping`",
            )


def _training_faults(federation: Federation) -> Iterator[Fault]:
    training = federation.training
    if training.trainer != "federboost":
        yield Fault(
            "training.trainer",
            f"is {training.trainer}",
            "horizontal learning has its own: federboost",
        )
    if training.active is None:
        yield Fault("training.active", "is required", "name the party that opens the runs")
    elif training.active not in federation.parties:
        yield Fault(
            "training.active", "names no party", f"known are {', '.join(federation.parties)}"
        )
    yield from summed_faults(federation)
    for key in ("method", "denoise"):
        if getattr(training, key):
            yield Fault(f"training.{key}", "is not for federboost", "leave it out")
    scoring = federation.scoring
    if ("mode" in scoring.model_fields_set and scoring.mode != "local") or scoring.evaluate:
        yield Fault("scoring", "has a mode other than local",
                    "in horizontal learning every party scores its own rows at home")  # fmt: skip


def _label_faults(federation: Federation) -> Iterator[Fault]:
    label: Label | None = federation.label
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
        yield Fault("label.bounds", "is only for regression", "take it out")
    known = len(set(label.classes or ()))
    if known < 2 or known < len(label.classes or ()) or (label.task == "binary" and known != 2):
        needs = "two" if label.task == "binary" else "two or more"
        yield Fault("label.classes", "is required of horizontal learning, where nobody sees all",
                    f"list the {needs} classes")  # fmt: skip


def _feature_faults(federation: Federation, name: str, feature: Feature) -> Iterator[Fault]:
    where = f"features.{name}"
    yield from value_faults(where, feature)
    if feature.epsilons:
        yield Fault(f"{where}.epsilons", "is not for horizontal learning", "leave it out")
    if feature.mechanism is not None:
        yield Fault(f"{where}.mechanism", "is not for horizontal learning",
                    "values stay at home and only sums leave: take it out")  # fmt: skip
    if "=" in name:
        yield Fault(where, "holds =, which joins a feature and its category", "rename the column")
    if isinstance(feature.missing, Fill) and feature.missing.bit is not None:
        yield Fault(f"{where}.missing.bit", "is not for horizontal learning, where no cell leaves",
                    "declare a fill alone, or `missing: keep`")  # fmt: skip
    if feature.missing == "keep" and feature.type == "nominal":
        yield Fault(f"{where}.missing", "is keep, and a category's bits have no room for it",
                    "declare a category of its own, and fill with that")  # fmt: skip
    if isinstance(feature.missing, Fill):
        fill = feature.missing.fill
        if feature.type == "numeric" and isinstance(fill, str):
            yield Fault(f"{where}.missing.fill", "is no number", "the feature is numeric")
        if feature.type != "numeric" and fill not in (feature.categories or ()):
            yield Fault(f"{where}.missing.fill", "is none of the declared categories")
    if len(set(feature.categories or ())) < len(feature.categories or ()):
        yield Fault(f"{where}.categories", "names a category twice")
    elif feature.type == "nominal":
        yield from category_faults(where, feature.categories or ())
    elif feature.type == "ordinal" and len(feature.categories or ()) < 2:
        yield Fault(f"{where}.categories", "is required of an ordinal feature",
                    "list at least two categories, lowest first")  # fmt: skip
    elif feature.type == "numeric" and feature.bounds is None:
        yield Fault(f"{where}.bounds", "is required: public bounds, never read off the data",
                    "for example [0, 100]")  # fmt: skip
    else:
        try:
            feature.domain_map(federation.domain.to_domain())
        except ConfigError as error:
            yield Fault(where, error.problem, error.remedy)

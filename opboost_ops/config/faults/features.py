"""Inconsistencies of features."""

from collections.abc import Iterator, Sequence

from opboost_ops.config.columns import MAX_CATEGORY_NAME, column_name
from opboost_ops.config.feature import Feature, Fill
from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError, Fault
from opboost_ops.mechanisms import Designed, UnaryEncoding


def feature_faults(where: str, feature: Feature) -> Iterator[Fault]:
    """Yield faults of any feature: bounds, categories, unit, mapping, rest and fill.

    Args:
        where: Place of the feature.
        feature: The parsed feature.
    """
    categories, mapping = feature.categories or (), feature.mapping
    if feature.bounds is not None and feature.bounds[0] >= feature.bounds[1]:
        yield Fault(f"{where}.bounds", "the lower bound is not less than the upper bound")
    if feature.type == "ordinal" and len(categories) < 2:
        yield Fault(
            f"{where}.categories",
            "is required of an ordinal feature",
            "list at least two categories, lowest first",
        )
    if len(set(categories)) < len(categories):
        yield Fault(f"{where}.categories", "names a category twice")
    fill = feature.missing.fill if isinstance(feature.missing, Fill) else None
    if feature.type == "numeric":
        if isinstance(fill, str):
            yield Fault(f"{where}.missing.fill", "is not a number", "the feature is numeric")
        for key in ("mapping", "rest"):
            if getattr(feature, key):
                yield Fault(
                    f"{where}.{key}",
                    "is only for a feature with categories",
                    "remove it, or declare type: nominal",
                )
        return
    if fill is not None and categories and fill not in categories:
        yield Fault(f"{where}.missing.fill", "is not one of the declared categories")
    if feature.unit is not None:
        yield Fault(
            f"{where}.unit",
            f"is only for numbers, and the feature is {feature.type}",
            "remove it",
        )
    if feature.rest is not None and feature.rest not in categories:
        yield Fault(
            f"{where}.rest", "is not one of the declared categories", "add it to categories"
        )
    for raw, category in mapping.items():
        place = f"{where}.mapping.{raw}"
        if categories and category not in categories:
            yield Fault(place, "maps to no declared category", "add it to categories")
        if raw in categories:
            yield Fault(place, "is itself a declared category", "remove one of the two")
        elif category in mapping:
            yield Fault(
                place,
                "maps to a category that is itself mapped",
                "map to the last category directly",
            )


def public_map_faults(where: str, feature: Feature, domain: Domain) -> Iterator[Fault]:
    """Yield faults that leave a numeric or ordinal feature without a public map to the domain.

    Args:
        where: Place of the feature.
        feature: The parsed feature.
        domain: The federation's domain.
    """
    if feature.type == "numeric" and feature.bounds is None:
        yield Fault(
            f"{where}.bounds",
            "is required: public bounds, not read from the data",
            "for example [0, 100]",
        )
    elif feature.type == "ordinal" and len(feature.categories or ()) < 2:
        return
    elif feature.span is not None and feature.span[0] < feature.span[1]:
        try:
            feature.domain_map(domain)
        except ConfigError as error:
            yield Fault(where, error.problem, error.remedy)


def category_faults(where: str, categories: Sequence[str]) -> Iterator[Fault]:
    """Yield faults of categories that each become a column.

    Args:
        where: Place of their feature.
        categories: The declared categories.
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
        if not name or len(name) > MAX_CATEGORY_NAME:
            yield Fault(
                f"{where}.categories.{i}",
                f"becomes a column's name, which has 1 to {MAX_CATEGORY_NAME} characters",
                "map it to a shorter name by `mapping`",
            )
        elif names.setdefault(name, category) != category:
            yield Fault(
                f"{where}.categories.{i}",
                "becomes the same column's name as another category",
                "map it to another name by `mapping`",
            )


def own_feature_faults(where: str, feature: Feature) -> Iterator[Fault]:
    """Yield faults that only the label holder's own features can have.

    Args:
        where: Place of the feature.
        feature: The parsed feature.
    """
    if feature.private_edges is not None:
        yield Fault(
            f"{where}.scale.epsilon",
            "private edges are only for feature holders, whose columns are released",
            "declare edges, or leave the scale out",
        )
    if feature.missing_bit is not None:
        yield Fault(
            f"{where}.missing.bit",
            "is only for feature holders",
            "the booster handles missing values of own features: declare `missing: keep`",
        )


def protected_feature_faults(where: str, feature: Feature, domain: Domain) -> Iterator[Fault]:
    """Yield faults of a feature holder's feature: missing and inapplicable entries.

    Args:
        where: Place of the feature.
        feature: The parsed feature.
        domain: The federation's domain.
    """
    mechanism, domain = feature.mechanism, feature.domain_in(domain)
    if feature.missing == "keep":
        yield Fault(
            f"{where}.missing", "keep is only for the label holder's own features", "declare a fill"
        )
    if mechanism is None:
        kind = "unary" if feature.type == "nominal" else "global_map"
        yield Fault(
            f"{where}.mechanism",
            "is required of a feature holder",
            f"for example {{name: {kind}, epsilon: 1.0}}",
        )
    if feature.type == "nominal":
        yield from _nominal_faults(where, feature)
    elif isinstance(mechanism, UnaryEncoding):
        yield Fault(
            f"{where}.mechanism.name",
            f"unary is only for nominal features, and this one is {feature.type}",
            "for example global_map",
        )
    else:
        unmapped = list(public_map_faults(where, feature, domain))
        yield from unmapped
        if mechanism is not None and not unmapped:
            yield from _domain_faults(where, feature, domain)
    if isinstance(mechanism, Designed) and isinstance(mechanism.table, str):
        yield Fault(
            f"{where}.mechanism.table",
            "names a file, which only federation.yaml can do: give the table itself",
        )


def _domain_faults(where: str, feature: Feature, domain: Domain) -> Iterator[Fault]:
    assert feature.mechanism is not None
    try:
        feature.mechanism.require(domain)
    except ConfigError as error:
        yield Fault(where, error.problem, error.remedy)


def _nominal_faults(where: str, feature: Feature) -> Iterator[Fault]:
    if feature.mechanism is not None and not isinstance(feature.mechanism, UnaryEncoding):
        yield Fault(
            f"{where}.mechanism.name",
            f"{feature.mechanism.name} needs an order, and the feature is nominal",
            "name unary, or declare an order of its categories (ordinal)",
        )
    categories = feature.categories or ()
    yield from category_faults(where, categories)
    if "missing" in categories and feature.missing_bit is not None:
        yield Fault(
            f"{where}.categories", "holds missing, which is also the name of the missing bit"
        )

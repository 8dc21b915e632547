"""What is wrong with how a feature's raw values become declared ones: unit, mapping, rest."""

from collections.abc import Iterator

from opboost_ops.config.feature import Feature
from opboost_ops.errors import Fault


def value_faults(where: str, feature: Feature) -> Iterator[Fault]:
    """Everything that is wrong with `unit`, `mapping` and `rest` of a feature.

    Args:
        where: Its place.
        feature: As parsed.
    """
    declared = feature.categories or ()
    if feature.type == "numeric":
        for key in ("mapping", "rest"):
            if getattr(feature, key):
                yield Fault(
                    f"{where}.{key}",
                    "is only for a feature with categories",
                    "take it out, or declare type: nominal",
                )
        return
    if feature.unit is not None:
        yield Fault(
            f"{where}.unit",
            f"is only for numbers, and the feature is {feature.type}",
            "take it out",
        )
    if feature.rest is not None and feature.rest not in declared:
        yield Fault(f"{where}.rest", "is none of the declared categories", "add it to categories")
    for raw, category in feature.mapping.items():
        place = f"{where}.mapping.{raw}"
        if declared and category not in declared:
            yield Fault(place, "leads to no declared category", "add it to categories")
        if raw in declared:
            yield Fault(place, "is a declared category itself", "take one of the two out")
        elif category in feature.mapping:
            yield Fault(place, "leads to what is mapped, too", "name the last category at once")

"""Expected columns of a table: what their declarations say before a file is read."""

from dataclasses import dataclass
from typing import Literal

from opboost_ops.config.feature import Feature, Fill
from opboost_ops.config.federation import Label

Kind = Literal["text", "number", "date"]


@dataclass(frozen=True)
class Expected:
    """A declared column.

    Attributes:
        name: Its declared name, for messages.
        kind: How cells of a CSV file are read: as they are, as numbers or truth values, or as dates
            and times, too.
        values: Declared texts, which are never gaps.
    """

    name: str
    kind: Kind
    values: frozenset[str] = frozenset()


def expected_feature(name: str, feature: Feature) -> Expected:
    """A feature's column.

    Args:
        name: For messages.
        feature: Its declaration.
    """
    if feature.type == "numeric":
        return Expected(name, "number" if feature.unit is None else "date")
    values = {*(feature.categories or ()), *feature.mapping}
    if isinstance(feature.missing, Fill):
        values.add(str(feature.missing.fill))
    return Expected(name, "text", frozenset(values))


def expected_label(label: Label) -> Expected | None:
    """A label's column; None where nothing declares its type.

    Args:
        label: Its declaration.
    """
    if label.task == "regression":
        return Expected(label.column, "number")
    if not label.classes:
        return None
    numbers = all(isinstance(name, int) for name in label.classes)
    values = frozenset(map(str, label.classes))
    return Expected(label.column, "number" if numbers else "text", values)

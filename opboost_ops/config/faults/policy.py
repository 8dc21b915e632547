"""Faults in a ``policy.yaml`` that its model cannot see: one column under two names."""

from collections import defaultdict
from collections.abc import Iterator

from opboost_ops.config.policy import Policy
from opboost_ops.errors import Fault


def policy_faults(policy: Policy) -> Iterator[Fault]:
    """All raw columns that have two names.

    Args:
        policy: As parsed.
    """
    columns: dict[str, list[str]] = defaultdict(list)
    for name, rule in policy.features.items():
        columns[rule.column or name].append(f"features.{name}")
    for name, column in policy.columns.items():
        if name in policy.features:
            yield Fault(f"columns.{name}", "is a feature", f"write features.{name}.column instead")
        else:
            columns[column].append(f"columns.{name}")
    if policy.id_column is not None:
        columns[policy.id_column].append("id_column")
    for places in columns.values():
        for place in places[1:]:
            where = f"{place}.column" if place.startswith("features.") else place
            yield Fault(where, f"is also the raw column of {places[0]}", "name each of them once")

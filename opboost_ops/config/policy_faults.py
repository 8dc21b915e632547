"""What is wrong in a ``policy.yaml`` that its model cannot see: one column under two names."""

from collections import defaultdict
from collections.abc import Iterator

from opboost_ops.config.policy import Policy
from opboost_ops.errors import Fault


def policy_faults(policy: Policy) -> Iterator[Fault]:
    """All columns that have two names, and all names of two columns.

    A column with two UUIDs would have its budgets twice, and two draws of the same cells.

    Args:
        policy: As parsed.
    """
    uuids: dict[str, list[str]] = defaultdict(list)
    columns: dict[str, list[str]] = defaultdict(list)
    for name, rule in policy.features.items():
        if rule.uuid is not None:
            uuids[str(rule.uuid)].append(f"features.{name}")
        columns[rule.column or name].append(f"features.{name}")
    for places in uuids.values():
        for place in places[1:]:
            yield Fault(
                f"{place}.uuid", f"is also that of {places[0]}", "a column has one of its own"
            )
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

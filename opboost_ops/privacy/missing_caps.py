"""What a party's policy leaves open: caps and budgets that it could set and does not."""

from collections.abc import Iterable
from uuid import UUID

from opboost_ops.config.policy import Policy
from opboost_ops.privacy.budgets import Forecast

#: Without all of them somebody who writes plans decides how much a feature costs.
_CAPS = ("budget_1", "budget_whole", "max_changes")


def missing_caps(policy: Policy, columns: Iterable[UUID] | None = None) -> list[str]:
    """Every cap that is missing, in words; empty where nothing is.

    Args:
        policy: The party's own.
        columns: Of which columns alone; of all that the policy names when absent.
    """
    wanted = None if columns is None else set(columns)
    found = []
    if not policy.require_encryption and (policy.receivers or policy.features):
        found.append("require_encryption is off: a plan may have everything sent in the clear.")
    for name, rule in policy.features.items():
        missing = [cap for cap in _CAPS if getattr(rule, cap) is None]
        if missing and rule.mechanisms and (wanted is None or rule.uuid in wanted):
            found.append(f"features.{name} has no {', '.join(missing)}.")
    return found


def too_narrow(found: Forecast) -> str:
    """Whether cells that are disclosed already are narrower than allowed; empty if they are not.

    Args:
        found: What a column's account has come to, and its rule.
    """
    least, width = found.account.least_cell, found.rule.least_cell_width
    if least is None or width is None or least >= width:
        return ""
    return (
        f"{found.feature}: a cell of {least:g} is disclosed exactly already, and least_cell_width "
        f"is {width:g}: no further edge is disclosed."
    )

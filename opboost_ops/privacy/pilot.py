"""What a pilot leaves for the release that is chosen by it: capped with it, before it is drawn.

The later release is chosen by what the pilot shows, so its columns and channels are not known yet.
Losses add up all the same, whatever is chosen by what: a person pays at most the pilot's curves and
the declared total.
"""

import math
from fractions import Fraction

from opboost_ops.config.federation import Federation
from opboost_ops.config.pilot import Pilot
from opboost_ops.config.policy import Policy
from opboost_ops.privacy.accountant import Loss


def still_to_come(federation: Federation, party: str) -> tuple[Loss, Loss]:
    """Sums of loss(1) and loss(R - L) that a pilot of a party leaves for later; 0 without one.

    Args:
        federation: The plan's.
        party: Its name.
    """
    pilot = federation.parties[party].pilot
    if pilot is None:
        return Fraction(0), Fraction(0)
    step, whole = (_or_infinite(t) for t in (pilot.total_loss_1, pilot.total_loss_whole))
    steps = federation.domain.to_domain().size - 1
    # No channel's loss(1) is above its loss(R - L), nor that above R - L times its loss(1).
    return min(step, whole), min(whole, step * steps)


def uncapped(policy: Policy, pilot: Pilot) -> list[str]:
    """Which caps a policy lacks for a pilot: without them its sum would have none.

    Args:
        policy: The party's.
        pilot: What is asked for.
    """
    caps = policy.all_features
    lacking = {
        "budget_1": pilot.total_loss_1 is not None and caps.budget_1 is None,
        "budget_whole": pilot.total_loss_whole is not None and caps.budget_whole is None,
    }
    refused = [
        f"all_features.{name} is {cap:g}: the release after the pilot may cost {total:g}, and "
        "would be refused"
        for name, cap, total in (
            ("max_loss_1", caps.max_loss_1, pilot.total_loss_1),
            ("max_loss_whole", caps.max_loss_whole, pilot.total_loss_whole),
        )
        if cap is not None and total is not None and total > cap
    ]
    return refused + [
        f"all_features.{name}: a pilot needs it, so that its sum with the release chosen by it is "
        "capped before anything is drawn"
        for name, missing in lacking.items()
        if missing
    ]


def _or_infinite(loss: float | None) -> Loss:
    return math.inf if loss is None else Fraction(loss)

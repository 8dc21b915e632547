"""The receiver's key that agreeing pins in a policy that lacks it: the label holder's."""

from opboost_ops.config.federation import Federation
from opboost_ops.config.policy import Policy, Receiver


def unpinned_receiver(policy: Policy, federation: Federation) -> str | None:
    """The label holder, where the party releases to it and its policy pins no key of it."""
    party = federation.parties.get(policy.party)
    if party is None or party.role != "feature_holder":
        return None
    holder = federation.label_holder
    return None if holder in policy.receivers else holder


def once_agreed(policy: Policy, federation: Federation) -> Policy:
    """The policy as it will be once its party has agreed."""
    holder = unpinned_receiver(policy, federation)
    if holder is None:
        return policy
    pinned = Receiver(signing_key=federation.parties[holder].signing_key)
    return policy.model_copy(update={"receivers": {**policy.receivers, holder: pinned}})

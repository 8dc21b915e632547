"""What agreeing pins in a policy that lacks it: columns' UUIDs, the label holder's key."""

from uuid import UUID

from opboost_ops.config.federation import Federation
from opboost_ops.config.policy import Policy, Receiver


def unpinned_receiver(policy: Policy, federation: Federation) -> str | None:
    """The label holder, where the party releases to it and its policy pins no key of it."""
    party = federation.parties.get(policy.party)
    if party is None or party.role != "feature_holder" or federation.learning == "horizontal":
        return None
    holder = federation.label_holder
    return None if holder in policy.receivers else holder


def unpinned_columns(policy: Policy, federation: Federation) -> dict[str, UUID]:
    """Features that the party's policy allows without pinning their UUID, as one of an old release.

    Args:
        policy: The party's.
        federation: As declared.

    Returns:
        By feature, the UUID that the federation gives to its column.
    """
    party = federation.parties.get(policy.party)
    features = party.features if party is not None else {}
    return {
        name: feature.uuid
        for name, feature in features.items()
        if (rule := policy.features.get(name)) is not None and rule.uuid is None
    }


def once_agreed(policy: Policy, federation: Federation) -> Policy:
    """The policy as it will be once its party has agreed."""
    changes: dict[str, object] = {}
    holder = unpinned_receiver(policy, federation)
    if holder is not None:
        pinned = Receiver(signing_key=federation.parties[holder].signing_key)
        changes["receivers"] = {**policy.receivers, holder: pinned}
    if columns := unpinned_columns(policy, federation):
        changes["features"] = {
            name: rule.model_copy(update={"uuid": columns.get(name, rule.uuid)})
            for name, rule in policy.features.items()
        }
    return policy.model_copy(update=changes)

"""Pinning the label holder's key when a party agrees, where its policy pins none yet."""

from pathlib import Path

from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import POLICY, load_policy
from opboost_ops.privacy.receivers import unpinned_receiver
from opboost_ops.setup.policy_file import pin_key


def pin_receiver(site: Path, federation: Federation) -> str | None:
    """Pin the label holder's signing key in ``policy.yaml``; a key that is pinned stays.

    Args:
        site: Folder of the party's ``site.yaml``.
        federation: What the party agrees to.

    Returns:
        The label holder, if its key is pinned now; None where there is nothing to pin.

    Raises:
        ConfigError: The file cannot be added to; nothing was changed.
    """
    if not (site / POLICY).is_file():
        return None
    holder = unpinned_receiver(load_policy(site / POLICY), federation)
    if holder is not None:
        pin_key(site / POLICY, holder, federation.parties[holder].signing_key, replace=False)
    return holder

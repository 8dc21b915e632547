"""Pinning what a party agrees to and its policy does not pin yet."""

from pathlib import Path

from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import POLICY, load_policy
from opboost_ops.privacy.pins import unpinned_receiver
from opboost_ops.setup.policy_file import pin_columns, pin_key


def pin(site: Path, federation: Federation) -> list[str]:
    """Pin columns and the label holder's signing key in ``policy.yaml``; what is pinned stays.

    Args:
        site: Folder of the party's ``site.yaml``.
        federation: What the party agrees to.

    Returns:
        What is pinned now, in words.

    Raises:
        ConfigError: The file cannot be added to, or the ledger knows a column by another UUID.
    """
    if not (site / POLICY).is_file():
        return []
    pinned = [f"column {uuid} of {name}" for name, uuid in pin_columns(site, federation).items()]
    holder = unpinned_receiver(load_policy(site / POLICY), federation)
    if holder is not None:
        pin_key(site / POLICY, holder, federation.parties[holder].signing_key, replace=False)
        pinned.append(f"the signing key of {holder}")
    return pinned

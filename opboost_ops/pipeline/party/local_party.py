"""A party on this machine: its site, policy and store, and whether its noise is reproducible."""

from dataclasses import dataclass

from opboost_ops.config.policy import Policy
from opboost_ops.config.site import Site
from opboost_ops.errors import ConfigError
from opboost_ops.exchange.store.store import Store

#: Prefix of a noise secret that was made from a public seed.
SEEDED = b"opboost-seeded:"


@dataclass(frozen=True)
class LocalParty:
    """A party on this machine, with its declared files and its exchange.

    Attributes:
        name: Name of the party.
        site: Its site.
        policy: Its policy.
        store: The exchange.
    """

    name: str
    site: Site
    policy: Policy
    store: Store


def experiment_of(party: LocalParty) -> bool:
    """Return True if a party's publications carry no privacy guarantee.

    Args:
        party: The party that publishes.

    Raises:
        ConfigError: They carry none, but the store is not marked as a throw-away one.
    """
    seeded = party.site.read_secret().startswith(SEEDED)
    if seeded and not party.store.throwaway:
        raise ConfigError(
            f"The secret of {party.name} was made from a public seed, and this store is no "
            "throw-away one.",
            "Make a secret with `opboost keys init`.",
        )
    return seeded

"""Comparison of a party's store with the one that its earlier runs used.

At its first run in a federation a party pins the store's identity in its own database; a store that
has none yet gets one. From then on a store with another identity, or with none, is refused before
anything is drawn, charged or released, and a run begins no new one. A person accepts another store
with `opboost ledger recover`. What a store says of itself is no proof: who changes it stops runs,
and can make no party release anything.
"""

from opboost_ops.config.site import Site
from opboost_ops.errors import ConfigError, OpBoostError
from opboost_ops.exchange.party_state import PartyState, open_state
from opboost_ops.exchange.store.identity import identity_from
from opboost_ops.exchange.store.store import LocalStore, Store, open_store
from opboost_ops.privacy.ledger.database import has_tables

#: How a person goes on.
REMEDY = (
    "See that `store` in site.yaml names the right place, and that the share is mounted there. "
    "Where the store was moved or replaced on purpose, `opboost ledger recover SITE --yes` goes "
    "on with the one that is there now."
)

#: How much of an identity people are shown.
_SHOWN = 8


def store_fault(state: PartyState, store: Store, party: str, federation: str) -> ConfigError | None:
    """Why a store is not the one that a party has pinned; None where it is, or none is pinned.

    Args:
        state: The party's.
        store: The exchange.
        party: Whose.
        federation: Name of the federation.

    Raises:
        ArtifactError: The store's identity is damaged, or its folder cannot be read.
        ConnectionError: The store cannot be reached.
    """
    pins = state.stores.pins()
    if not pins:
        return None
    pin, identity = pins.get(federation), store.identity()
    if identity is not None and (pin is None or pin.identity == identity):
        return None
    # Where a party uses a store already, a run begins no other one, for no federation.
    pinned = pin or next(iter(pins.values()))
    there = f"has the identity {identity[:_SHOWN]}" if identity else "is empty or has no identity"
    return ConfigError(
        f"The store of {party} is not the one that its runs of {federation} use: it {there}, and "
        f"{pinned.identity[:_SHOWN]} is pinned since {pinned.since[:10]}.",
        REMEDY,
    )


def folder_fault(state: PartyState, site: Site, federation: str) -> str:
    """Why the folder that a site names as its store is not the pinned one; empty where it is.

    For pages, which do not wait for a server: of another store than a folder it says nothing.

    Args:
        state: The party's.
        site: Its site.
        federation: Name of the federation.
    """
    try:
        store = open_store(site.store)
        is_folder = isinstance(store, LocalStore)
        fault = store_fault(state, store, site.party, federation) if is_folder else None
    except ConnectionError as error:
        return str(error)
    except OpBoostError as error:
        return error.problem
    return fault.problem if fault is not None else ""


def require_known_store(site: Site, store: Store, federation: str) -> None:
    """Refuse a store that is not the one that a party has pinned.

    Args:
        site: The party's.
        store: The exchange.
        federation: Name of the federation.

    Raises:
        ConfigError: It is another one, or has no identity.
    """
    if not has_tables(site.ledger_url()):
        return
    with open_state(site) as state:
        fault = store_fault(state, store, site.party, federation)
    if fault is not None:
        raise fault


def pin_store(site: Site, store: Store, federation: str, agreement: str, run: str) -> None:
    """Pin the store at a party's first run in a federation; later ones change nothing.

    Args:
        site: The party's.
        store: The exchange.
        federation: Name of the federation.
        agreement: Digest of the agreement of the run's plan.
        run: The run's id.

    Raises:
        ConfigError: The party uses another store, and this one has no identity; or the store lets a
            later writer replace what was published.
    """
    with open_state(site) as state:
        if federation in state.stores.pins():
            return
        require_keeps_first(store, federation)
        if fault := store_fault(state, store, site.party, federation):
            raise fault
        state.stores.pin(federation, _identity_of(store, identity_from(agreement, run)))


def accept_store(state: PartyState, store: Store, party: str, federation: str) -> bool:
    """Use the store that is there now in a federation, by a person's decision.

    A store without an identity gets the one that was pinned, so that the other parties go on.

    Args:
        state: The party's.
        store: The exchange.
        party: Whose.
        federation: Name of the federation.

    Returns:
        Whether it was not the one that the party has pinned.

    Raises:
        ConfigError: The store lets a later writer replace what was published.
    """
    if store_fault(state, store, party, federation) is None:
        return False
    pins = state.stores.pins()
    before = pins.get(federation) or next(iter(pins.values()))
    require_keeps_first(store, federation)
    identity = _identity_of(store, before.identity)
    state.stores.pin(federation, identity)
    detail = f"store: {identity[:_SHOWN]} is used from now on, {before.identity[:_SHOWN]} before"
    state.audit.add("noted", f"{federation}/store", party, detail=detail)
    return True


def require_keeps_first(store: Store, federation: str) -> None:
    """Refuse a store that accepts two writers of one place.

    Args:
        store: The exchange.
        federation: Name of the federation.

    Raises:
        ConfigError: It does: an artifact could be replaced after another party has read it.
    """
    if not store.keeps_first(federation):
        raise ConfigError(
            "The store accepted a second writer of one place: published artifacts could be "
            "replaced.",
            "Use a service that honours If-None-Match on put, as Amazon S3 does, or a folder whose "
            "file system does not rename a folder onto another.",
        )


def _identity_of(store: Store, otherwise: str) -> str:
    """A store's identity, which it gets where it has none; the first of two writers decides it."""
    identity = store.identity()
    if identity is None:
        store.set_identity(otherwise)
        identity = store.identity()
    if identity is None:
        raise ConfigError(
            "The store does not keep its identity.", "See that this party may write at its root."
        )
    return identity

"""The public keys and the store that a party trusts, by its policy and its earlier runs.

The policy pins one signing key per receiver. Keys that it has replaced are trusted too, if the
newest agreement names them; `pipeline.party.agreement` accepts as replaced only keys that were
agreed to before. A key that any agreement has revoked stays revoked.

At its first run in a federation a party pins the store's identity in its own database; a store
without an identity gets one. From then on a store with another identity, or none, is refused before
anything is drawn, charged or released, and no new run starts. A person accepts another store with
`opboost ledger recover`. The identity is no proof: anyone who can change it can stop runs, but
cannot make a party release anything.
"""

from collections.abc import Iterator
from contextlib import suppress
from datetime import date

from opboost_ops.config.federation import Federation
from opboost_ops.config.policy import Policy
from opboost_ops.config.public_keys import MAX_OVERLAP_DAYS, FormerKey, PublicKeys
from opboost_ops.config.site import Site
from opboost_ops.errors import ConfigError, OpBoostError
from opboost_ops.exchange.encryption import all_keys, key_name
from opboost_ops.exchange.party_state import PartyState, agreements_of, open_state
from opboost_ops.exchange.signing import Signer
from opboost_ops.exchange.store.places import identity_from
from opboost_ops.exchange.store.store import LocalStore, Store, open_store
from opboost_ops.privacy.consent.agreements import Agreement, Agreements
from opboost_ops.privacy.ledger.database import has_tables

_FIELDS = frozenset(PublicKeys.model_fields)

#: Remedy for a store that is not the pinned one.
REMEDY = (
    "See that `store` in site.yaml names the right place, and that the share is mounted there. "
    "Where the store was moved or replaced on purpose, `opboost ledger recover SITE --yes` goes "
    "on with the one that is there now."
)

#: Number of identity digits in messages.
_SHOWN = 8


def keys_in(agreement: Agreement) -> dict[str, PublicKeys]:
    """Return the keys that an agreement names, by party."""
    return {
        name: PublicKeys.model_validate({k: v for k, v in spec.items() if k in _FIELDS})
        for name, spec in agreement.content["federation"]["parties"].items()
    }


def label_holders(site: Site, federation: str) -> list[str]:
    """Return the label holders of all agreements with a federation, newest agreement first.

    Args:
        site: The party's site. Withdrawn agreements count; damaged ones are reported elsewhere.
        federation: Name of the federation.
    """
    with suppress(ConfigError):
        return [
            name
            for agreement in reversed(agreements_of(site).of(federation))
            for name, spec in agreement.content["federation"]["parties"].items()
            if spec["role"] in ("label_holder", "active")
        ]
    return []


def revoked(agreements: Agreements, federation: str) -> frozenset[str]:
    """Return all keys that any agreement with a federation has revoked, withdrawn ones included.

    Args:
        agreements: The party's agreements.
        federation: Name of the federation.
    """
    every = (
        spec for agreement in agreements.of(federation) for spec in keys_in(agreement).values()
    )
    return frozenset(key for spec in every for key in spec.revoked_keys)


def replaced(agreements: Agreements, federation: str, party: str, pinned: str) -> tuple[str, ...]:
    """Return signing keys of a party that the pinned key has replaced and that may still be valid.

    Args:
        agreements: The agreements of the party that verifies.
        federation: Name of the federation.
        party: The party whose keys are returned.
        pinned: The key that the policy pins.
    """
    agreed = agreements.of(federation)
    spec = keys_in(agreed[-1]).get(party) if agreed else None
    if spec is None or spec.signing_key != pinned:
        return ()
    # A party that joined after the replacement never agreed to the former key.
    earlier = {keys[party].signing_key for keys in map(keys_in, agreed) if party in keys}
    believed = earlier - {pinned, *revoked(agreements, federation)}
    return tuple(key for key in spec.all_signing_keys if key in believed)


def for_run(policy: Policy, agreements: Agreements, federation: Federation) -> Policy:
    """Return the policy for a run: with its pinned keys, or the keys that these have replaced.

    A run opened under a replaced key continues; `against_newest` decides which keys are valid.

    Args:
        policy: The party's policy.
        agreements: The party's agreements.
        federation: The plan's federation.
    """
    receivers = dict(policy.receivers)
    for name, receiver in policy.receivers.items():
        key = federation.parties[name].signing_key if name in federation.parties else ""
        if key in replaced(agreements, federation.name, name, receiver.signing_key):
            receivers[name] = receiver.model_copy(update={"signing_key": key})
    return policy.model_copy(update={"receivers": receivers})


def signed_as(site: Site, federation: str, party: str, pinned: str | None) -> tuple[str, ...]:
    """Return all keys that have signed for a party, to verify old artifacts, never new runs.

    Args:
        site: Site of the party that verifies.
        federation: Name of the federation.
        party: The signer.
        pinned: The key that the policy pins for it, if any.
    """
    keys = [pinned] if pinned else []
    if party == site.party:
        keys += [signer.public for signer in all_keys(site.signing_key, Signer.from_file)]
    # Damaged agreements are reported elsewhere; the pinned key does not depend on them.
    with suppress(ConfigError):
        for agreement in agreements_of(site).of(federation):
            spec = keys_in(agreement).get(party)
            keys += spec.all_signing_keys if spec else ()
    return tuple(dict.fromkeys(keys))


def against_newest(agreements: Agreements, federation: Federation, day: date) -> Iterator[str]:
    """Yield why the newest agreement does not allow a plan's keys on a day.

    Args:
        agreements: The party's agreements.
        federation: The plan's federation.
        day: Date for which the validity of keys is judged.
    """
    gone, newest = revoked(agreements, federation.name), keys_in(agreements.of(federation.name)[-1])
    for name, spec in federation.parties.items():
        signing, opening = spec.signing(day), spec.opening(day)
        for key in dict.fromkeys((*signing, *opening)):
            if key in gone:
                yield (
                    f"parties.{name}: the plan goes by key {key_name(key)}, which is revoked: a "
                    "new run under the newest agreement"
                )
        present = newest.get(name)
        if present is None:
            continue
        if not set(signing) <= set(present.signing(day)):
            yield f"parties.{name}.signing_key: no longer good by the newest agreement"
        if spec.encryption_key not in present.opening(day):
            yield f"parties.{name}.encryption_key: no longer good by the newest agreement"


def alike_but_for_keys(first: Agreement, other: Agreement) -> bool:
    """Return True if two agreements differ only in keys and their dates."""
    return _without_keys(first) == _without_keys(other)


def scored_under(
    agreements: Agreements, federation: str, digest: str, version: str | None
) -> Agreement | None:
    """Return the agreement under which a version may be scored; None if it may not.

    This is the agreement in force, or one that differs from it in keys alone, because parties
    agree to a new key one after another; or the former one that the party keeps for this version.

    Args:
        agreements: The party's agreements.
        federation: Name of the federation.
        digest: Digest of the plan's agreement.
        version: The version that the plan scores with.
    """
    newest, named = agreements.newest(federation), agreements.standing(federation, digest)
    if named is None:
        return None
    if newest is not None and alike_but_for_keys(named, newest):
        return named
    former = agreements.kept_under(federation, version)
    return former if former is not None and former.digest == digest else None


def require_honest(agreements: Agreements, federation: Federation, today: date) -> None:
    """Refuse replaced keys that the party never agreed to, or that stay valid for too long.

    Args:
        agreements: The party's earlier agreements.
        federation: The federation to agree to.
        today: The date by the party's own clock.

    Raises:
        ConfigError: A key was revoked, was never agreed to, or overlaps for too long.
    """
    gone, agreed = revoked(agreements, federation.name), agreements.of(federation.name)
    before = [keys_in(agreement) for agreement in agreed]
    for name, spec in federation.parties.items():
        where = f"parties.{name} of {federation.name}"
        named = {spec.signing_key, spec.encryption_key, *(f.key for f in spec.former_keys)}
        for key in sorted(k for k in named if k and k in gone):
            raise ConfigError(
                f"{where} names key {key_name(key)}, which was revoked.",
                "Nothing was agreed to. A revoked key stays revoked: its party makes a new one "
                "with `opboost keys renew`.",
            )
        for former in spec.former_keys:
            if (former.until - today).days > MAX_OVERLAP_DAYS:
                raise ConfigError(
                    f"{where}: key {key_name(former.key)} was replaced, and would be valid until "
                    f"{former.until}.",
                    f"Nothing was agreed to. An overlap lasts at most {MAX_OVERLAP_DAYS} days.",
                )
            earlier = [keys[name] for keys in before if name in keys]
            if (
                earlier
                and former.until >= today
                and not any(_had(keys, former) for keys in earlier)
            ):
                raise ConfigError(
                    f"{where} names key {key_name(former.key)} as a former one, but this party "
                    "never agreed to it.",
                    "Nothing was agreed to. Ask that party over another channel whose key it is.",
                )


def _had(keys: PublicKeys, former: FormerKey) -> bool:
    if former in keys.former_keys:
        return True
    return former.key == (keys.signing_key if former.use == "signing" else keys.encryption_key)


def _without_keys(agreement: Agreement) -> object:
    parties = {
        name: {key: value for key, value in spec.items() if key not in _FIELDS}
        for name, spec in agreement.content["federation"]["parties"].items()
    }
    return {
        **agreement.content,
        "federation": {**agreement.content["federation"], "parties": parties},
    }


def store_fault(state: PartyState, store: Store, party: str, federation: str) -> ConfigError | None:
    """Return an error if a store is not the one that a party has pinned; None if it is or may be.

    Args:
        state: The party's state.
        store: The exchange.
        party: Name of the party.
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
    # A party that already uses a store starts no run in another one, in any federation.
    pinned = pin or next(iter(pins.values()))
    there = f"has the identity {identity[:_SHOWN]}" if identity else "is empty or has no identity"
    return ConfigError(
        f"The store of {party} is not the one that its runs of {federation} use: it {there}, and "
        f"{pinned.identity[:_SHOWN]} is pinned since {pinned.since[:10]}.",
        REMEDY,
    )


def folder_fault(state: PartyState, site: Site, federation: str) -> str:
    """Describe why a site's store folder is not the pinned one; empty if it is.

    For pages, which do not wait for a server: stores other than folders are not checked.

    Args:
        state: The party's state.
        site: The party's site.
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
    """Require that a store is the one that a party has pinned.

    Args:
        site: The party's site.
        store: The exchange.
        federation: Name of the federation.

    Raises:
        ConfigError: The store has another identity, or none.
    """
    if not has_tables(site.ledger_url()):
        return
    with open_state(site) as state:
        fault = store_fault(state, store, site.party, federation)
    if fault is not None:
        raise fault


def pin_store(site: Site, store: Store, federation: str, agreement: str, run: str) -> None:
    """Pin the store at a party's first run in a federation; later runs change nothing.

    Args:
        site: The party's site.
        store: The exchange.
        federation: Name of the federation.
        agreement: Digest of the agreement of the run's plan.
        run: The run's ID.

    Raises:
        ConfigError: The party uses another store and this one has no identity, or a later writer
            could replace published artifacts in it.
    """
    with open_state(site) as state:
        if federation in state.stores.pins():
            return
        require_keeps_first(store, federation)
        if fault := store_fault(state, store, site.party, federation):
            raise fault
        state.stores.pin(federation, _identity_of(store, identity_from(agreement, run)))


def accept_store(state: PartyState, store: Store, party: str, federation: str) -> bool:
    """Pin the current store of a federation after a person's decision.

    A store without an identity gets the formerly pinned one, so that the other parties continue.

    Args:
        state: The party's state.
        store: The exchange.
        party: Name of the party.
        federation: Name of the federation.

    Returns:
        True if another store was pinned before.

    Raises:
        ConfigError: A later writer could replace published artifacts in the store.
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
    """Require that a store refuses a second writer of one place.

    Args:
        store: The exchange.
        federation: Name of the federation.

    Raises:
        ConfigError: It does not, so an artifact could be replaced after a party has read it.
    """
    if not store.keeps_first(federation):
        raise ConfigError(
            "The store accepted a second writer of one place: published artifacts could be "
            "replaced.",
            "Use a service that honours If-None-Match on put, as Amazon S3 does, or a folder whose "
            "file system does not rename a folder onto another.",
        )


def _identity_of(store: Store, otherwise: str) -> str:
    """Return a store's identity, set to ``otherwise`` if it has none; the first writer wins."""
    identity = store.identity()
    if identity is None:
        store.set_identity(otherwise)
        identity = store.identity()
    if identity is None:
        raise ConfigError(
            "The store does not keep its identity.", "See that this party may write at its root."
        )
    return identity

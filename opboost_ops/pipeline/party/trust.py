"""Public keys and a store that a party knows, by its policy and its earlier runs.

The policy pins one signing key of a receiver. Those that it has replaced come with it where the
newest agreement names them, and `pipeline.party.agreement` lets in no key as replaced that was not
agreed to before. What an agreement has revoked stays revoked, whatever later or older ones say.

At its first run in a federation a party pins the store's identity in its own database; a store that
has none yet gets one. From then on a store with another identity, or with none, is refused before
anything is drawn, charged or released, and a run begins no new one. A person accepts another store
with `opboost ledger recover`. What a store says of itself is no proof: who changes it stops runs,
and can make no party release anything.
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

#: How a person goes on.
REMEDY = (
    "See that `store` in site.yaml names the right place, and that the share is mounted there. "
    "Where the store was moved or replaced on purpose, `opboost ledger recover SITE --yes` goes "
    "on with the one that is there now."
)

#: How much of an identity people are shown.
_SHOWN = 8


def keys_in(agreement: Agreement) -> dict[str, PublicKeys]:
    """The keys that an agreement names, by party.

    Args:
        agreement: Of whatever age.
    """
    return {
        name: PublicKeys.model_validate({k: v for k, v in spec.items() if k in _FIELDS})
        for name, spec in agreement.content["federation"]["parties"].items()
    }


def revoked(agreements: Agreements, federation: str) -> frozenset[str]:
    """All keys that any agreement with a federation has revoked, a withdrawn one too.

    Args:
        agreements: What the party has agreed to.
        federation: The federation's name.
    """
    every = (
        spec for agreement in agreements.of(federation) for spec in keys_in(agreement).values()
    )
    return frozenset(key for spec in every for key in spec.revoked_keys)


def replaced(agreements: Agreements, federation: str, party: str, pinned: str) -> tuple[str, ...]:
    """Signing keys of a party that the pinned one has replaced, and that may be good still.

    Args:
        agreements: What the party that asks has agreed to.
        federation: The federation's name.
        party: Whose keys.
        pinned: The one that the policy pins.
    """
    agreed = agreements.of(federation)
    spec = keys_in(agreed[-1]).get(party) if agreed else None
    if spec is None or spec.signing_key != pinned:
        return ()
    # A party that joins later has never compared the key that was good before: it knows the new
    # one.
    earlier = {keys[party].signing_key for keys in map(keys_in, agreed) if party in keys}
    believed = earlier - {pinned, *revoked(agreements, federation)}
    return tuple(key for key in spec.all_signing_keys if key in believed)


def for_run(policy: Policy, agreements: Agreements, federation: Federation) -> Policy:
    """A policy as a run is asked by it: its pins, or the keys that these have replaced.

    A run that was opened under the key before goes on. Which keys are still good `against_newest`
    decides.

    Args:
        policy: The party's own.
        agreements: What it has agreed to.
        federation: The plan's.
    """
    receivers = dict(policy.receivers)
    for name, receiver in policy.receivers.items():
        key = federation.parties[name].signing_key if name in federation.parties else ""
        if key in replaced(agreements, federation.name, name, receiver.signing_key):
            receivers[name] = receiver.model_copy(update={"signing_key": key})
    return policy.model_copy(update={"receivers": receivers})


def signed_as(site: Site, federation: str, party: str, pinned: str | None) -> tuple[str, ...]:
    """All keys that ever signed for a party, to read what is old; never to begin anything.

    Args:
        site: Whose agreements say it.
        federation: The federation's name.
        party: Who signed.
        pinned: The key that the policy pins for it, if any.
    """
    keys = [pinned] if pinned else []
    if party == site.party:
        keys += [signer.public for signer in all_keys(site.signing_key, Signer.from_file)]
    # A damaged agreement is told elsewhere; the pinned key is known without it.
    with suppress(ConfigError):
        for agreement in agreements_of(site).of(federation):
            spec = keys_in(agreement).get(party)
            keys += spec.all_signing_keys if spec else ()
    return tuple(dict.fromkeys(keys))


def against_newest(agreements: Agreements, federation: Federation, day: date) -> Iterator[str]:
    """Why a plan's keys are not those that the newest agreement lets a run of a day have.

    Args:
        agreements: What the party has agreed to.
        federation: The plan's.
        day: As of when keys are judged.
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
    """True if two agreements differ in nothing but keys and their dates."""
    return _without_keys(first) == _without_keys(other)


def scored_under(
    agreements: Agreements, federation: str, digest: str, version: str | None
) -> Agreement | None:
    """The agreement under which a version may be scored; None where nothing of it is answered.

    It is the one in force, or one that differs from it in keys alone: parties agree to a new key
    one after the other. Of former agreements it is the one that the party keeps for this version.

    Args:
        agreements: What the party has agreed to.
        federation: The federation's name.
        digest: Of the agreement of the plan.
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
    """Refuse to agree to keys as replaced that never were the party's, or are good for long.

    Args:
        agreements: What the party has agreed to before.
        federation: What it is asked to agree to.
        today: By its own clock.

    Raises:
        ConfigError: Saying which.
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

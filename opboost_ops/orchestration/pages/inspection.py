"""A run's artifacts in the store, as far as a party may read them, each verified."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import parse_federation
from opboost_ops.config.policy import Policy
from opboost_ops.config.site import Site
from opboost_ops.errors import ConfigError
from opboost_ops.exchange import verification
from opboost_ops.exchange.contents import opened
from opboost_ops.exchange.manifest import Kind, Manifest, receiver_of, reference, sender_of
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.store.store import Store
from opboost_ops.pipeline.party.known_keys import signed_as


@dataclass(frozen=True)
class Inspected:
    """An artifact that was looked at.

    Attributes:
        kind: The kind of its place.
        about: The party of its place.
        sender: Who alone may have published it.
        receiver: Whom it is for; None for all.
        size: Bytes of all its files as they lie in the store.
        manifest: What it says of itself, if that can be read.
        rejected: Why it is not what it must be; None if it is.
        gone: It is no longer in the store.
        declared: The federation of a plan that is what it must be.
    """

    kind: str
    about: str
    sender: str
    receiver: str | None
    size: int = 0
    manifest: Manifest | None = None
    rejected: Rejected | None = None
    gone: bool = False
    declared: Federation | None = None


def inspect_run(
    store: Store, site: Site, policy: Policy, federation: str, run: str
) -> list[Inspected]:
    """Everything in a run that a party sent, that is for it, or that is for all.

    What others say to each other is left out, although it lies in the same store.

    Args:
        store: The exchange.
        site: Whose view.
        policy: Its policy, which pins the label holder's key.
        federation: The run's federation.
        run: Its id.
    """
    party = site.party
    places = [place.split("/")[2:] for place in store.list(f"{federation}/{run}")]
    pairs = [(p[0], p[1]) for p in places if len(p) == 2 and p[0] in get_args(Kind)]
    holders = [about for kind, about in pairs if kind == "plan"]
    if not holders:
        return []
    trusted = (party, *policy.receivers)
    holder = next((name for name in holders if name in trusted), holders[0])
    receiver = policy.receivers.get(holder)
    pinned = signed_as(site, federation, holder, receiver.signing_key if receiver else None)

    def plan_keys(_: Manifest, what: str) -> Sequence[str]:
        if not pinned:
            raise Rejected("unknown_party", f"{what}: the policy pins no key of {holder}.")
        return pinned

    plan_place = reference(federation, run, "plan", holder)
    plan_files = store.get(plan_place) or {}
    plan = _inspected(Inspected("plan", holder, holder, None), plan_files, plan_place, plan_keys)
    declared = plan.declared

    def declared_keys(manifest: Manifest, what: str) -> Sequence[str]:
        if declared is None:
            raise Rejected("out_of_order", f"{what}: the run's plan is not what it must be.")
        return verification.declared_keys(declared, manifest, what)

    inspected = [plan]
    for kind, about in pairs:
        sender = sender_of(kind, about, holder)
        addressed = receiver_of(kind, about, holder)
        if kind == "plan" or party not in (sender, addressed):
            continue
        what = reference(federation, run, kind, about)
        files = store.get(what)
        if files is not None:
            place = Inspected(kind, about, sender, addressed)
            inspected.append(_inspected(place, files, what, declared_keys))
    return inspected


def _inspected(
    place: Inspected,
    files: Mapping[str, bytes],
    what: str,
    keys_of: Callable[[Manifest, str], Sequence[str]],
) -> Inspected:
    """A place as its manifest describes it, and why it is not what it must be."""
    place = replace(place, size=sum(map(len, files.values())))
    try:
        manifest = verification.read_manifest(files, what)
        place = replace(place, manifest=manifest)
        key = verification.verify(manifest, files, keys_of(manifest, what), what)
        if manifest.reference != what:
            raise Rejected("wrong_run", f"{what}: it is of another run or place.")
        if place.kind == "plan":
            return replace(place, declared=_declared(place, manifest, files, key))
    except Rejected as error:
        return replace(place, rejected=error)
    except ConfigError as error:
        return replace(place, rejected=Rejected("malformed", error.problem))
    return place


def _declared(
    place: Inspected, manifest: Manifest, files: Mapping[str, bytes], key: str
) -> Federation:
    """The federation that a plan declares, of which its signer is the label holder."""
    what = manifest.reference
    document = opened(manifest, files, None, what).document
    declared = parse_federation(document.get("federation"), what)
    spec = declared.parties.get(place.about)
    if spec is None or key not in spec.signed_ever or declared.label_holder != place.about:
        raise Rejected("malformed", f"{what}: it plans another party's run.")
    return declared

"""A run's artifacts in the store, as far as a party may read them, each verified."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast, get_args

from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import parse_federation
from opboost_ops.config.policy import Policy
from opboost_ops.config.site import Site
from opboost_ops.errors import ConfigError
from opboost_ops.exchange import verification
from opboost_ops.exchange.contents import opened
from opboost_ops.exchange.manifest import Kind, Manifest, receiver_of, reference, sender_of
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.store import Store
from opboost_ops.run.known_keys import signed_as


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
    store: Store, party: str, site: Site, policy: Policy, federation: str, run: str
) -> list[Inspected]:
    """Everything in a run that a party sent, that is for it, or that is for all.

    What others say to each other is left out, although it lies in the same store.

    Args:
        store: The exchange.
        party: Whose view.
        site: Its site.
        policy: Its policy, which pins the label holder's key.
        federation: The run's federation.
        run: Its id.
    """
    places = [place.split("/")[2:] for place in store.list(f"{federation}/{run}")]
    known = [(p[0], p[1]) for p in places if len(p) == 2 and p[0] in get_args(Kind)]
    holders = [about for kind, about in known if kind == "plan"]
    if not holders:
        return []
    trusted = (party, *policy.receivers)
    holder = next((name for name in holders if name in trusted), holders[0])
    receiver = policy.receivers.get(holder)
    pinned = signed_as(site, federation, holder, receiver.signing_key if receiver else None)
    plan_files = store.get(reference(federation, run, "plan", holder)) or {}
    plan, declared = _plan(plan_files, pinned, holder, reference(federation, run, "plan", holder))
    found = [plan]
    for kind, about in known:
        sender = sender_of(cast(Kind, kind), about, holder)
        addressed = receiver_of(cast(Kind, kind), about, holder)
        if kind == "plan" or party not in (sender, addressed):
            continue
        what = reference(federation, run, kind, about)
        files = store.get(what)
        if files is not None:
            place = Inspected(kind, about, sender, addressed, _size(files))
            found.append(_inspected(place, files, declared, what))
    return found


def _plan(
    files: Mapping[str, bytes], pinned: Sequence[str], holder: str, what: str
) -> tuple[Inspected, Federation | None]:
    place = Inspected("plan", holder, holder, None, _size(files))
    manifest: Manifest | None = None
    failure: Rejected
    try:
        manifest = verification.read_manifest(files, what)
        if not pinned:
            raise Rejected("unknown_party", f"{what}: the policy pins no key of {holder}.")
        key = verification.verify(manifest, files, pinned, what)
        if manifest.reference != what:
            raise Rejected("wrong_run", f"{what}: it is of another run or place.")
        document = opened(manifest, files, None, what).document
        declared = parse_federation(document.get("federation"), what, stored=True)
        spec = declared.parties.get(holder)
        if spec is None or key not in spec.signed_ever or declared.label_holder != holder:
            raise Rejected("malformed", f"{what}: it plans another party's run.")
        seen = Inspected("plan", holder, holder, None, _size(files), manifest, declared=declared)
        return seen, declared
    except Rejected as error:
        failure = error
    except ConfigError as error:
        failure = Rejected("malformed", error.problem)
    return (
        Inspected("plan", holder, holder, None, place.size, manifest, rejected=failure),
        None,
    )


def _inspected(
    place: Inspected, files: Mapping[str, bytes], declared: Federation | None, what: str
) -> Inspected:
    manifest: Manifest | None = None
    failure: Rejected | None = None
    try:
        manifest = verification.read_manifest(files, what)
        if declared is None:
            raise Rejected("out_of_order", f"{what}: the run's plan is not what it must be.")
        keys = verification.declared_keys(declared, manifest, what)
        verification.verify(manifest, files, keys, what)
        if manifest.reference != what:
            raise Rejected("wrong_run", f"{what}: it is of another run or place.")
    except Rejected as error:
        failure = error
    return Inspected(
        place.kind, place.about, place.sender, place.receiver, place.size, manifest, failure
    )


def _size(files: Mapping[str, bytes]) -> int:
    return sum(map(len, files.values()))

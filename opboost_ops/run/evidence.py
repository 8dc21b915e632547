"""What a party has published, by what lies outside its database: its home folders and the store."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast, get_args

from pydantic import ValidationError

from opboost_ops.config.site import Site
from opboost_ops.errors import ContractError
from opboost_ops.exchange.manifest import (
    MANIFEST,
    ROUND_KINDS,
    SIGNATURE,
    Kind,
    Manifest,
    head_towards,
    is_run_id,
    parse_manifest,
    sender_of,
)
from opboost_ops.exchange.order import MEMORY, Memory
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.signing import signed_by
from opboost_ops.exchange.store import Store
from opboost_ops.privacy.heads import Given, Head
from opboost_ops.run.known_keys import signed_as
from opboost_ops.stages.stage import Home

#: Where a run's home keeps what was told of others' seeing this party's books.
SEEN = "seen_of_us"

#: Kinds of which a run has many.
_MANY = frozenset(ROUND_KINDS) - {"round_key"}

#: Kinds of artifact that have a ledger line each.
KINDS = frozenset(get_args(Kind)) - frozenset(ROUND_KINDS)


@dataclass(frozen=True)
class Published:
    """An artifact of the party's own, as something outside its database knows it.

    Attributes:
        federation: Of which federation.
        run: Of which run.
        kind: Its kind.
        about: The party it is about.
        digest: Its digest.
        where: What knows it, in words.
        holder: The federation's label holder, by the run's plan; empty if that is not known.
        manifest: Its manifest, where the store has it.
    """

    federation: str
    run: str
    kind: Kind
    about: str
    digest: str
    where: str
    holder: str = ""
    manifest: Manifest | None = None

    @property
    def given(self) -> Given | None:
        """Where its manifest says that the party's books stood."""
        found = self.manifest
        return Given(head=found.head, seen=found.seen) if found and found.head else None

    @property
    def place(self) -> str:
        """Where it lies in the store."""
        return f"{self.federation}/{self.run}/{self.kind}/{self.about}"


@dataclass(frozen=True)
class HomeRun:
    """What the home folder of one run knows.

    Attributes:
        federation: Of which federation.
        run: Of which run.
        holder: The federation's label holder, by the run's plan; empty if it has none.
        own: What the party published in it.
        received: By place, digests of what it has accepted from others.
        draws: Names of the draws that it took, by charge.
        seen: The last head of this party's that another one has told that it had seen.
    """

    federation: str
    run: str
    holder: str
    own: tuple[Published, ...]
    received: Mapping[str, str]
    draws: Mapping[str, str]
    seen: Head | None = None


def home_runs(site: Site) -> Iterator[HomeRun]:
    """All runs of which the home folder knows something, in no order.

    Args:
        site: The party's.
    """
    found = {p.parent for name in (MEMORY, SEEN) for p in site.home.glob(f"*/*/{name}.json")}
    for folder in sorted(found):
        yield home_run(site, folder)


def home_run(site: Site, folder: Path) -> HomeRun:
    """What the home folder of one run knows.

    Args:
        site: The party's.
        folder: The run's.
    """
    run, federation = folder.name, folder.parent.name
    try:
        accepted = Memory.model_validate_json((folder / f"{MEMORY}.json").read_bytes()).accepted
    except (OSError, ValidationError):
        accepted = {}
    holder = next((p.partition("/")[2] for p in accepted if p.startswith("plan/")), "")
    own, received = [], {}
    for place, entry in accepted.items():
        name, _, about = place.partition("/")
        kind = cast(Kind, name)
        if sender_of(kind, about, holder) == site.party:
            where = f"{federation}/{run} in the home folder"
            own.append(Published(federation, run, kind, about, entry.digest, where, holder))
        else:
            received[place] = entry.digest
    told, seen = _seen(folder)
    draws = _draws(folder)
    return HomeRun(federation, run, holder or told, tuple(own), received, draws, seen)


def require_not_published(site: Site, federation: str, run: str, receiver: str) -> None:
    """Refuse to publish where a run has published before and the books have no head of it.

    Args:
        site: The party's.
        federation: The federation's name.
        run: The run's id.
        receiver: Towards whom.

    Raises:
        ContractError: So it is: an older database was put back in the middle of the run.
    """
    known = home_run(site, site.home / federation / run)
    for one in known.own:
        if one.kind in KINDS and head_towards(one.kind, one.about, known.holder) == receiver:
            raise ContractError(
                f"{site.party} has published in run {run} of {federation}, and its books do not "
                "know it.",
                "Nothing was published. `opboost ledger check SITE` says what they lack.",
            )


def _draws(folder: Path) -> Mapping[str, str]:
    try:
        found = json.loads((folder / "held.json").read_bytes())["draws"]
        return {str(charge): str(name) for charge, name in found.items()}
    except (OSError, ValueError, KeyError, AttributeError):
        return {}


def note_seen(site: Site, federation: str, run: str, holder: str, head: Head) -> None:
    """Keep, in a run's home, that another party has seen a head of this one's books.

    Args:
        site: The party's.
        federation: The federation's name.
        run: The run's id.
        holder: The federation's label holder.
        head: What was seen.
    """
    told = {"holder": holder, "head": head.model_dump()}
    Home(site.home / federation / run).write_json(SEEN, told)


def _seen(folder: Path) -> tuple[str, Head | None]:
    try:
        told = json.loads((folder / f"{SEEN}.json").read_bytes())
        return str(told["holder"]), Head.model_validate(told["head"])
    except (OSError, ValueError, KeyError, TypeError):
        return "", None


class _Seen(Exception):  # noqa: N818
    """Ends reading an artifact after manifest and signature."""


def manifest_at(store: Store, reference: str) -> tuple[Manifest, bytes, bytes] | None:
    """Manifest and signature of what lies at a place; its files are not read.

    Args:
        store: The exchange.
        reference: The place.

    Returns:
        The manifest, its bytes and the signature, not verified; None where there is none to read.
    """
    heads: dict[str, bytes] = {}

    def admit(found: Mapping[str, bytes]) -> Mapping[str, int]:
        heads.update(found)
        raise _Seen

    try:
        store.get(reference, admit)
    except _Seen:
        pass
    except Rejected:
        return None
    try:
        raw, signature = heads[MANIFEST], heads[SIGNATURE]
        return parse_manifest(raw, reference), raw, signature
    except (KeyError, Rejected):
        return None


def in_store(site: Site, store: Store, federation: str) -> Iterator[Published]:
    """What a party has published in a federation; see `manifests_in`."""
    for manifest, holder in manifests_in(site, store, federation):
        where = f"{manifest.reference} in the store, signed by {site.party}"
        place = (federation, manifest.run, manifest.kind, manifest.about)
        yield Published(*place, manifest.digest, where, holder, manifest)


def manifests_in(site: Site, store: Store, federation: str) -> Iterator[tuple[Manifest, str]]:
    """What a party has signed in a federation, each with the label holder by its run's plan.

    What others put there in its name, without its key, is no evidence.

    Args:
        site: The party's.
        store: The exchange.
        federation: Name of the federation.
    """
    # Also what it signed by keys that it has replaced since: that was released as well.
    keys = signed_as(site, federation, site.party, None)
    for run in store.runs(federation):
        places = store.list(f"{federation}/{run}")
        plans = [place.split("/")[3] for place in places if place.split("/")[2:3] == ["plan"]]
        for place in places:
            parts = place.split("/")
            if len(parts) != 4 or not is_run_id(parts[1]) or parts[2] in _MANY:
                continue
            found = manifest_at(store, place)
            if found is None or found[0].party != site.party or found[0].reference != place:
                continue
            manifest, raw, signature = found
            if any(signed_by(key, raw, signature) for key in keys):
                yield manifest, plans[0] if plans else ""

"""A party's inbox of a run: the plan, accepted artifacts, and its audit log of both."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from opboost_ops.config.site import Site
from opboost_ops.errors import BudgetError, ConfigError, OpBoostError, PolicyError
from opboost_ops.exchange.acceptance import Acceptance, Memory
from opboost_ops.exchange.audit import Action
from opboost_ops.exchange.encryption import all_keys
from opboost_ops.exchange.manifest import (
    Manifest,
    checkpoint_towards,
    receiver_of,
    reference,
)
from opboost_ops.exchange.order import MEMORY
from opboost_ops.exchange.party_state import agreements_of, open_state, reuse_open_state
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.signing import Signer
from opboost_ops.pipeline.party import clock, trust
from opboost_ops.pipeline.party.admission import Proposal, admit, refuse_unknown
from opboost_ops.pipeline.party.rollback import is_genuine
from opboost_ops.pipeline.party.trust import pin_store, require_known_store
from opboost_ops.pipeline.phases import stages_of
from opboost_ops.pipeline.runner.preflight import require_ready
from opboost_ops.pipeline.runner.publication import Publisher
from opboost_ops.pipeline.stage import Home
from opboost_ops.privacy.ledger.checkpoints import Checkpoint
from opboost_ops.tables.spill.arrays import Scratch
from opboost_ops.tables.spill.files import private_folder


@dataclass(frozen=True)
class Run:
    """Which run a stage belongs to.

    Attributes:
        federation: Name of its federation.
        run: Its id, 16 hex digits.
        label_holder: Who opened it; every other party pins that name's key in its policy.
        timeout: Seconds to wait for another party's artifact; 0 where tasks come in order.
    """

    federation: str
    run: str
    label_holder: str
    timeout: float = 0.0


def note_received(site: Site, acceptance: Acceptance, run: Run, before: set[str]) -> None:
    """Enter into the audit log what a party has received.

    Args:
        site: The party's.
        acceptance: What it has accepted of the run.
        run: The run.
        before: Places of what was entered before.
    """
    received = acceptance.memory.accepted.items()
    new = [(place, entry.digest) for place, entry in received if place not in before]
    if not new:
        return
    with open_state(site) as state, state.together():
        for place, digest in new:
            kind, about = place.split("/")
            receiver = receiver_of(kind, about, run.label_holder)
            sender = about if receiver == run.label_holder else run.label_holder
            if sender != site.party:
                full = f"{run.federation}/{run.run}/{place}"
                state.audit.add("received", full, sender, digest)


def note_refused(site: Site, run: Run, stage: str, error: Rejected | BudgetError) -> None:
    """Enter into the audit log an artifact that a party rejects, or what its budget has refused.

    Args:
        site: The party's.
        run: The run.
        stage: Where in it.
        error: The refusal; its words are from public facts.
    """
    action: Action = "rejected" if isinstance(error, Rejected) else "refused"
    detail = error.reason if isinstance(error, Rejected) else error.problem[:2000]
    # The log is about the refusal; whether it can be written does not change the error.
    with contextlib.suppress(Exception), open_state(site) as state:
        place = f"{run.federation}/{run.run}/{stage}"
        state.audit.add(action, place, site.party, detail=detail)


def accept_plan(
    party: Publisher, run: Run, stage: str = "", also: Sequence[OpBoostError] = ()
) -> tuple[Acceptance, str]:
    """Take a run's plan; before the party's first work in the run, all that it lacks is told.

    Args:
        party: Who takes it.
        run: The run.
        stage: For which stage; to join the run when absent.
        also: What else blocks the run, before the first work.

    Returns:
        What the party accepts of the run, with the plan in it, and the plan's digest.

    Raises:
        ArtifactError: There is none.
        Rejected: It is not signed by the label holder whom the party's policy pins, or is no plan.
        PolicyError: The party has not agreed to it.
        OpBoostError: The party could not do its part, or its store is not the one that it knows.
    """
    unknown = ""
    with reuse_open_state():
        # Before waiting: in another store than its own nothing would ever come.
        require_known_store(party.site, party.store, run.federation)
        try:
            acceptance = acceptance_of(party, run)
        except PolicyError as error:
            unknown = error.problem
        if unknown:
            home = home_of(party.site, run.federation, run.run)
            raise refuse_unknown(party, run.federation, run.run, run.label_holder, unknown, home)
        place = reference(run.federation, run.run, "plan", run.label_holder)
        files = party.store.wait(place, run.timeout, acceptance.admit("plan", run.label_holder))
        return acceptance, _taken(party, run, stage, also, acceptance, files)


def _taken(
    party: Publisher,
    run: Run,
    stage: str,
    also: Sequence[OpBoostError],
    acceptance: Acceptance,
    files: Mapping[str, bytes],
) -> str:
    """The digest of a plan that has come, once it is accepted and admitted."""
    today = clock.today()
    plan = acceptance.accept("plan", run.label_holder, files, today)
    home = home_of(party.site, run.federation, run.run)
    day = acceptance.day(today)
    taken = acceptance.plan
    federation = taken.federation
    takes_part = party.name in federation.parties
    stages = stages_of(federation, taken.purpose, party.name) if takes_part else ()
    proposal = Proposal(taken, run.run, plan.digest, home, day, plan.manifest.seen)
    if stage in ("", *stages[:1]):
        require_ready(party, proposal, also)
    else:
        admit(party, proposal)
    pin_store(party.site, party.store, run.federation, taken.agreement, run.run)
    return plan.digest


def acceptance_of(party: Publisher, run: Run) -> Acceptance:
    """A party's acceptance of a run, with its memory of this run and of earlier ones.

    Args:
        party: Whose.
        run: The run.

    Raises:
        PolicyError: The party's policy does not know the label holder.
    """
    folder = party.site.home / run.federation / run.run

    def memory_of(path: Path) -> Memory:
        return Memory.model_validate_json(path.read_bytes()) if path.is_file() else Memory()

    def earlier() -> frozenset[str]:
        paths = folder.parent.glob(f"*/{MEMORY}.json")
        others = (memory_of(path) for path in paths if path.parent != folder)
        return frozenset[str]().union(*(memory.digests for memory in others))

    own = memory_of(folder / f"{MEMORY}.json")
    acceptance = accepting(party, run.federation, run.run, run.label_holder, own, earlier)
    acceptance.scratch = Scratch(folder, party.site.block_rows)
    acceptance.heads = partial(_keep_checkpoint, party, run)
    return acceptance


def _keep_checkpoint(party: Publisher, run: Run, manifest: Manifest) -> None:
    """Keep the sender's checkpoint as a receipt, and look at what it has received of this party's.

    Raises:
        PolicyError: The sender returns a checkpoint that this party has signed and does not know.
    """
    name, sender, holder = run.federation, manifest.party, run.label_holder
    if sender == party.name:
        return

    def genuine(whose: str, checkpoint: Checkpoint) -> bool:
        keys = trust.signed_as(party.site, name, whose, None)
        return is_genuine(keys, whose, name, holder, checkpoint)

    towards = checkpoint_towards(manifest.kind, manifest.about, holder)
    claim = manifest.seen.get(party.name)
    with open_state(party.site) as state:
        # Receipts go back in artifacts for the label holder, or from it.
        here = manifest.head if towards == holder else None
        if here is not None and genuine(sender, here):
            state.checkpoints.receive(name, sender, holder, here)
        unknown = claim is not None and not state.checkpoints.knows(name, holder, claim)
    if claim is not None and unknown and manifest.kind != "plan" and genuine(party.name, claim):
        # Of the plan it is told at admission, with all else.
        raise PolicyError(
            f"{party.name} stops run {run.run} of {name}: its state was rolled back.",
            "Its own people look at `opboost ledger check SITE`.",
        )


def accepting(
    party: Publisher,
    federation: str,
    run: str,
    label_holder: str,
    own: Memory | None = None,
    earlier: Callable[[], frozenset[str]] = frozenset,
) -> Acceptance:
    """A party's acceptance of a run, by the keys that its policy and agreements name.

    Args:
        party: Whose.
        federation: Name of the federation.
        run: The run's id.
        label_holder: Who opened it.
        own: What it has accepted of it before.
        earlier: Gives the digests that it accepted in other runs.

    Raises:
        PolicyError: The party's policy does not know the label holder.
    """
    key = pinned_key(party, label_holder)
    former: tuple[str, ...] = ()
    gone: frozenset[str] = frozenset()
    # Where agreements cannot be read, `admit` refuses the plan, and says so.
    with contextlib.suppress(ConfigError):
        agreements = agreements_of(party.site)
        former = trust.replaced(agreements, federation, label_holder, key)
        gone = trust.revoked(agreements, federation)
    if party.name == label_holder:
        own_keys = [signer.public for signer in all_keys(party.site.signing_key, Signer.from_file)]
        former = tuple(k for k in (*own_keys, *former) if k not in (key, *gone))
    return Acceptance(party.name, federation, run, label_holder, key, own, earlier, former, gone)


def pinned_key(party: Publisher, label_holder: str) -> str:
    """The key that a party pins for the label holder, base64.

    Args:
        party: Whose policy says it.
        label_holder: The federation's.

    Raises:
        PolicyError: The party's policy does not know the label holder.
    """
    if party.name == label_holder:
        return Signer.from_file(party.site.signing_key).public
    if label_holder in party.policy.receivers:
        return party.policy.receivers[label_holder].signing_key
    raise PolicyError(
        f"The policy of {party.name} does not name {label_holder} as a receiver.",
        "Its owner may add it, with its signing key, to policy.yaml.",
    )


def has_part(site: Site, federation: str, run: str) -> bool:
    """True if a party has accepted the plan of a run before.

    Args:
        site: The party's.
        federation: Name of the federation.
        run: The run's id.
    """
    return Home(site.home / federation / run).has(MEMORY)


def keep(acceptance: Acceptance, home: Home) -> None:
    """Keep what a party has accepted of a run in its home."""
    memory = acceptance.memory.model_dump(mode="json")
    if not home.has(MEMORY) or home.json(MEMORY) != memory:
        home.write_json(MEMORY, memory)


def home_of(site: Site, federation: str, run: str) -> Home:
    """A party's private folder for a run, made if it is absent."""
    folder = site.home / federation / run
    private_folder(folder)
    return Home(folder, site.block_rows)

"""A party's inbox for one run: its plan, the accepted artifacts, and audit log entries of both."""

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
from opboost_ops.pipeline.party.local_party import LocalParty
from opboost_ops.pipeline.party.rollback import is_genuine
from opboost_ops.pipeline.party.trust import pin_store, require_known_store
from opboost_ops.pipeline.phases import stages_of
from opboost_ops.pipeline.runner.preflight import require_ready
from opboost_ops.pipeline.stage import Home
from opboost_ops.privacy.ledger.checkpoints import Checkpoint
from opboost_ops.tables.spill.arrays import Scratch
from opboost_ops.tables.spill.files import private_folder


@dataclass(frozen=True)
class Run:
    """The run that a stage belongs to.

    Attributes:
        federation: Name of its federation.
        run: Its ID, 16 hex digits.
        label_holder: The party that opened it; the other parties pin its key in their policies.
        timeout: Seconds to wait for another party's artifact; 0 if tasks run in order.
    """

    federation: str
    run: str
    label_holder: str
    timeout: float = 0.0


def note_received(site: Site, acceptance: Acceptance, run: Run, before: set[str]) -> None:
    """Log newly received artifacts in the audit log.

    Args:
        site: The party's site.
        acceptance: The accepted artifacts of the run.
        run: The run.
        before: Places of artifacts that were logged before.
    """
    received = acceptance.memory.accepted.items()
    new = [(place, entry.digest) for place, entry in received if place not in before]
    if not new:
        return
    with open_state(site) as state, state.transaction():
        for place, digest in new:
            kind, about = place.split("/")
            receiver = receiver_of(kind, about, run.label_holder)
            sender = about if receiver == run.label_holder else run.label_holder
            if sender != site.party:
                full = f"{run.federation}/{run.run}/{place}"
                state.audit.add("received", full, sender, digest)


def note_refused(site: Site, run: Run, stage: str, error: Rejected | BudgetError) -> None:
    """Log a rejected artifact, or a release that the budget refused, in the audit log.

    Args:
        site: The party's site.
        run: The run.
        stage: The stage that failed.
        error: The refusal; its text comes from public facts.
    """
    action: Action = "rejected" if isinstance(error, Rejected) else "refused"
    detail = error.reason if isinstance(error, Rejected) else error.problem[:2000]
    # A log that cannot be written must not hide the refusal itself.
    with contextlib.suppress(Exception), open_state(site) as state:
        place = f"{run.federation}/{run.run}/{stage}"
        state.audit.add(action, place, site.party, detail=detail)


def accept_plan(
    party: LocalParty, run: Run, stage: str = "", also: Sequence[OpBoostError] = ()
) -> tuple[Acceptance, str]:
    """Accept a run's plan; before the party's first stage, report everything that it lacks.

    Args:
        party: The party that accepts.
        run: The run.
        stage: The stage that needs the plan; empty to join the run.
        also: Other problems that block the run, reported before the first stage.

    Returns:
        The party's acceptance of the run, which includes the plan, and the plan's digest.

    Raises:
        ArtifactError: There is no plan.
        Rejected: The plan is malformed, or not signed by the label holder that the policy pins.
        PolicyError: The party has not agreed to it.
        OpBoostError: The party could not do its part, or its store is not the pinned one.
    """
    unknown = ""
    with reuse_open_state():
        # Check before waiting: nothing would ever arrive in the wrong store.
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
        return acceptance, _accept_plan(party, run, stage, also, acceptance, files)


def _accept_plan(
    party: LocalParty,
    run: Run,
    stage: str,
    also: Sequence[OpBoostError],
    acceptance: Acceptance,
    files: Mapping[str, bytes],
) -> str:
    """Accept and admit a plan that has arrived; return its digest."""
    today = clock.today()
    plan = acceptance.accept("plan", run.label_holder, files, today)
    home = home_of(party.site, run.federation, run.run)
    day = acceptance.day(today)
    accepted = acceptance.plan
    federation = accepted.federation
    takes_part = party.name in federation.parties
    stages = stages_of(federation, accepted.purpose, party.name) if takes_part else ()
    proposal = Proposal(accepted, run.run, plan.digest, home, day, plan.manifest.seen)
    if stage in ("", *stages[:1]):
        require_ready(party, proposal, also)
    else:
        admit(party, proposal)
    pin_store(party.site, party.store, run.federation, accepted.agreement, run.run)
    return plan.digest


def acceptance_of(party: LocalParty, run: Run) -> Acceptance:
    """Return a party's acceptance of a run, with the digests that it accepted in earlier runs.

    Args:
        party: The party.
        run: The run.

    Raises:
        PolicyError: The party's policy does not name the label holder.
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
    acceptance.keep_checkpoint = partial(_keep_checkpoint, party, run)
    return acceptance


def _keep_checkpoint(party: LocalParty, run: Run, manifest: Manifest) -> None:
    """Store the sender's checkpoint as a receipt; check the one it returns of this party.

    Raises:
        PolicyError: The sender returns a checkpoint that this party has signed but does not know:
            its state was rolled back.
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
        # Receipts are exchanged with the label holder only.
        here = manifest.head if towards == holder else None
        if here is not None and genuine(sender, here):
            state.checkpoints.receive(name, sender, holder, here)
        unknown = claim is not None and not state.checkpoints.knows(name, holder, claim)
    if claim is not None and unknown and manifest.kind != "plan" and genuine(party.name, claim):
        # For the plan, admission reports this together with all other reasons.
        raise PolicyError(
            f"{party.name} stops run {run.run} of {name}: its state was rolled back.",
            "Its own people look at `opboost ledger check SITE`.",
        )


def accepting(
    party: LocalParty,
    federation: str,
    run: str,
    label_holder: str,
    own: Memory | None = None,
    earlier: Callable[[], frozenset[str]] = frozenset,
) -> Acceptance:
    """Return a party's acceptance of a run, with the keys from its policy and agreements.

    Args:
        party: The party.
        federation: Name of the federation.
        run: The run's ID.
        label_holder: The party that opened the run.
        own: Artifacts of the run that it accepted before.
        earlier: Returns the digests that it accepted in other runs.

    Raises:
        PolicyError: The party's policy does not name the label holder.
    """
    key = pinned_key(party, label_holder)
    former: tuple[str, ...] = ()
    gone: frozenset[str] = frozenset()
    # If agreements cannot be read, `admit` refuses the plan with that reason.
    with contextlib.suppress(ConfigError):
        agreements = agreements_of(party.site)
        former = trust.replaced(agreements, federation, label_holder, key)
        gone = trust.revoked(agreements, federation)
    if party.name == label_holder:
        own_keys = [signer.public for signer in all_keys(party.site.signing_key, Signer.from_file)]
        former = tuple(k for k in (*own_keys, *former) if k not in (key, *gone))
    return Acceptance(party.name, federation, run, label_holder, key, own, earlier, former, gone)


def pinned_key(party: LocalParty, label_holder: str) -> str:
    """Return the key that a party pins for the label holder, base64.

    Args:
        party: The party whose policy is read.
        label_holder: The federation's label holder.

    Raises:
        PolicyError: The party's policy does not name the label holder.
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
    """Return True if a party has accepted the plan of a run.

    Args:
        site: The party's site.
        federation: Name of the federation.
        run: The run's ID.
    """
    return Home(site.home / federation / run).has(MEMORY)


def keep(acceptance: Acceptance, home: Home) -> None:
    """Store the accepted artifacts' digests of a run in the party's home."""
    memory = acceptance.memory.model_dump(mode="json")
    if not home.has(MEMORY) or home.json(MEMORY) != memory:
        home.write_json(MEMORY, memory)


def home_of(site: Site, federation: str, run: str) -> Home:
    """Return a party's private folder for a run; create it if missing."""
    folder = site.home / federation / run
    private_folder(folder)
    return Home(folder, site.block_rows)

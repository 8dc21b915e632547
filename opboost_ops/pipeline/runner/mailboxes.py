"""A party's side of the rounds: policy and ledger before them, the audit log after them."""

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np

from opboost_ops.config.federation import Federation
from opboost_ops.config.policy import Policy
from opboost_ops.errors import ContractError, PolicyError
from opboost_ops.exchange.encryption import PrivateKey
from opboost_ops.exchange.manifest import Manifest
from opboost_ops.exchange.party_state import PartyState, open_state
from opboost_ops.exchange.rounds.conversation import Conversation, Messages
from opboost_ops.exchange.rounds.mailbox import Mailbox
from opboost_ops.exchange.rounds.protocol import Identity, Phase
from opboost_ops.exchange.signing import Signer
from opboost_ops.learning.federboost.declared import private_of, settings_of
from opboost_ops.learning.federboost.private_federboost import noise_of
from opboost_ops.learning.private import noise as model_noise
from opboost_ops.learning.private.noise import fresh_key
from opboost_ops.mechanisms import noise
from opboost_ops.pipeline.party.local_party import LocalParty, experiment_of
from opboost_ops.pipeline.phases import ROUNDS
from opboost_ops.pipeline.runner.disclosures import announce, announce_step, charge_sums
from opboost_ops.pipeline.runner.publication import standing
from opboost_ops.pipeline.stage import Home
from opboost_ops.privacy.ledger.query_counts import name_of
from opboost_ops.tables.spill.files import whole_file


def open_mailbox(
    party: LocalParty,
    federation: Federation,
    run: str,
    plan: str,
    signer: Signer,
    private: PrivateKey | None,
    home: Home,
    keep_checkpoint: Callable[[Manifest], None],
    day: date,
) -> Mailbox:
    """Open a party's mailbox; all charges are in the ledger before the first message.

    Args:
        party: The party.
        federation: The plan's federation.
        run: The run's ID.
        plan: Digest of the plan.
        signer: The party's signing key.
        private: Its private encryption key, if declared.
        home: Its private folder for the run.
        keep_checkpoint: Checks the other parties' checkpoints; see `Acceptance.keep_checkpoint`.
        day: Date for which the validity of keys is judged.

    Raises:
        PolicyError: The party's policy does not name another party, or has another key for it.
        BudgetError: The rounds would exceed the policy's cap on all models.
        ContractError: The run's session took place before and was removed.
    """
    own = federation.parties[party.name].signing_key
    pinned = pinned_keys(party.name, party.policy, federation, own)
    secret = party.site.read_secret()
    experiment = experiment_of(party)
    with open_state(party.site) as state:
        keys = open_session(state, federation.name, run, home)
        stands = standing(state, party, federation, run, "round_key", party.name, signer)
    key = keys.key
    seed = None if key is None else noise.run_seed(secret, federation.name, run, key)
    announce_step(party, federation, run, ROUNDS, "messages")
    budget, draw = private_of(federation), None
    if budget is not None and key is not None:
        added = noise_of(settings_of(federation), budget)
        rows = home.table("rows").num_rows
        charge_sums(party, federation, run, name_of(key), added, rows)

        def draw(phase: Phase, count: int) -> np.ndarray:
            return model_noise.skellam(count, added.means[phase])

    conversation = Conversation(federation, run, plan, pinned, private, experiment)
    conversation.keep_checkpoint = keep_checkpoint
    me = Identity(party.name, signer, secret, seed, experiment, draw, keys.decisions, stands)
    messages = Messages(me, party.store, conversation, patience_of(federation))
    return Mailbox(messages, home.folder / "rounds", today=lambda: day)


def patience_of(federation: Federation) -> float:
    """Return seconds that a party waits for another in a round: 15 minutes of a 12-hour timeout.

    Args:
        federation: The plan's federation.
    """
    return 3600 * federation.schedule.timeout_hours / 48


def close_mailbox(
    party: LocalParty, federation: Federation, run: str, mailbox: Mailbox, home: Home
) -> None:
    """Record the number of sums in the ledger, and the conversation's digest in the audit log.

    Args:
        party: The party.
        federation: The plan's federation.
        run: The run's ID.
        mailbox: The party's mailbox, whose rounds have ended.
        home: Its private folder for the run.
    """
    active = federation.label_holder
    sums = ", ".join(f"{count:,} in phase {name}" for name, count in mailbox.traffic.sums.items())
    if party.name != active:
        announce(party, federation, run, f"{ROUNDS}_number", f"number of sums: {sums}", active)
    place = f"{federation.name}/{run}"
    with open_state(party.site) as state:
        receiver = "all" if party.name == active else active
        detail = f"{mailbox.traffic.sent} messages of rounds"
        kind = "decision" if party.name == active else "masked"
        state.audit.add(
            "sent", f"{place}/{kind}/{party.name}/all", receiver, mailbox.traffic.digest, detail
        )
        detail = "all rounds, by the last decision"
        state.audit.add("received", f"{place}/decision/{active}/all", active, mailbox.head, detail)
    forget_session(party, federation, run, mailbox, home)


def forget_session(
    party: LocalParty, federation: Federation, run: str, mailbox: Mailbox, home: Home
) -> None:
    """Destroy a party's key of a session that has ended or was closed.

    Args:
        party: The party.
        federation: The plan's federation.
        run: The run's ID.
        mailbox: The party's mailbox.
        home: Its private folder for the run.
    """
    with open_state(party.site) as state:
        end_session(state, federation.name, run, home, mailbox.decision_key)


def pinned_keys(me: str, policy: Policy, federation: Federation, own: str) -> dict[str, str]:
    """Return all parties' signing keys as pinned by a party's own policy.

    Args:
        me: The party.
        policy: Its policy.
        federation: The federation as declared.
        own: Its own public key.

    Raises:
        PolicyError: The policy does not name another party, or has another key for it.
    """
    keys = {me: own}
    for name, spec in federation.parties.items():
        if name == me:
            continue
        receiver = policy.receivers.get(name)
        if receiver is None or receiver.signing_key != spec.signing_key:
            problem = "does not name" if receiver is None else "names another signing key of"
            raise PolicyError(
                f"The policy of {me} {problem} {name}, with which it would add up sums.",
                "Its owner may add every party, with its signing key, to receivers in policy.yaml: "
                "invented parties could learn this one's sums.",
            )
        keys[name] = receiver.signing_key
    return keys


_FILE = "session.json"


@dataclass(frozen=True)
class SessionKeys:
    """A party's keys of a session.

    Attributes:
        key: The session key, 32 bytes; None after the session has ended, when it can only be read.
        decisions: The key of the decisions, after the session has ended.
    """

    key: bytes | None
    decisions: bytes | None = None


def open_session(state: PartyState, federation: str, run: str, home: Home) -> SessionKeys:
    """Return the key of a run's session: a new one, or in a retry the existing one.

    The key file is written before the ledger entry. After a crash in between nothing was sent, and
    the file is used. Later, if the ledger knows a session whose key file is missing, the home was
    removed.

    Args:
        state: The party's state.
        federation: Name of the federation.
        run: The run's ID.
        home: The party's private folder for the run.

    Returns:
        The session's keys.

    Raises:
        ContractError: The session was removed at this party, with its record of sent vectors, so
            nothing more can be sent in it.
    """
    with state.transaction():
        session = state.sessions.find(federation, run)
        stored = _read(home.folder / _FILE)
        if session is None:
            key = (stored and stored[1]) or _draw(home.folder / _FILE)
            state.sessions.begin(federation, run, key)
            return SessionKeys(key)
    name, key_or_none, _ = stored or ("", None, None)
    if name == session.name and session.ended_at is not None:
        return SessionKeys(None, stored and stored[2])
    if name != session.name or key_or_none is None:
        raise _removed()
    return SessionKeys(key_or_none)


def end_session(
    state: PartyState, federation: str, run: str, home: Home, decisions: bytes | None
) -> None:
    """Record that a session has ended, and destroy its key, so that no later leak removes masks.

    Args:
        state: The party's state.
        federation: Name of the federation.
        run: The run's ID.
        home: The party's private folder for the run.
        decisions: The key of the decisions, which reveal no more than the model in the same folder.
    """
    state.sessions.end(federation, run)
    session = state.sessions.find(federation, run)
    assert session is not None
    content = {"name": session.name, "key": None, "decisions": decisions and decisions.hex()}
    home.write(_FILE, json.dumps(content).encode())


def _removed() -> ContractError:
    return ContractError(
        "The rounds of this run took place before, and this party's session was removed: a "
        "session never takes place twice.",
        "Trigger a new run.",
    )


def _read(path: Path) -> tuple[str, bytes | None, bytes | None] | None:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        content = json.loads(path.read_bytes())
        key = None if content["key"] is None else bytes.fromhex(content["key"])
        if key is None or name_of(key) == content["name"]:
            decisions = content.get("decisions")
            return str(content["name"]), key, bytes.fromhex(decisions) if decisions else None
    return None


def _draw(path: Path) -> bytes:
    key = fresh_key()
    with whole_file(path) as file:
        file.write(json.dumps({"name": name_of(key), "key": key.hex()}).encode())
    return key

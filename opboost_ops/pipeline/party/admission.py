"""Admission: a party compares a plan with its agreement and policy before any table is opened.

This is the only comparison with the agreement, for every stage of every party; stages check the
policy again before they release. Outsiders see the same words for every refusal; the party's own
people find the reason in ``errors/refused.txt`` of the run's home folder and in the audit log.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from opboost_ops import __version__
from opboost_ops.config.agreement import PROTOCOL, fields
from opboost_ops.config.federation import Federation
from opboost_ops.errors import OpBoostError, PolicyError
from opboost_ops.exchange.party_state import agreements_of, open_state
from opboost_ops.exchange.plan import Plan
from opboost_ops.exchange.sealed import month_keys
from opboost_ops.pipeline.matching import EPOCH
from opboost_ops.pipeline.party import clock, trust
from opboost_ops.pipeline.party.agreement import Stop, stopped
from opboost_ops.pipeline.party.local_party import LocalParty
from opboost_ops.pipeline.party.rollback import rolled_back
from opboost_ops.pipeline.stage import Home
from opboost_ops.privacy.consent.agreements import Agreements
from opboost_ops.privacy.consent.compliance import require_consent
from opboost_ops.privacy.ledger.checkpoints import Checkpoint

#: File in a run's home with the reasons of a refusal.
REFUSED = "errors/refused.txt"

#: Digest of the inputs that were admitted: they are not compared again while unchanged.
ADMITTED = "admitted"

#: Folder in the federation's home with the runs of the current month, by purpose.
_RUNS = "runs"

#: Notification to the party's own people, by kind of refusal.
_NOTICES = {"not agreed": "agreement_needed", "stopped": "schedule_stopped"}

#: Maximum fields in an audit entry; the home folder has all.
_NAMED = 20


@dataclass(frozen=True)
class Proposal:
    """A plan that asks a party to take part in a run.

    Attributes:
        plan: The plan.
        run: The run's ID.
        digest: The plan's digest.
        home: The party's folder for the run.
        day: Date for which the validity of keys is judged.
        received: The latest checkpoint of each party that the plan claims to have received.
    """

    plan: Plan
    run: str
    digest: str
    home: Home
    day: date
    received: Mapping[str, Checkpoint] = field(default_factory=dict)


def admit(party: LocalParty, proposal: Proposal) -> None:
    """Refuse a plan that differs from the party's agreement or that its policy does not allow.

    Before the party's first task its own state is checked as well: nothing is released if it was
    rolled back or if pins are lost.

    Args:
        party: The party.
        proposal: The plan.

    Raises:
        PolicyError: The party refuses; the message is the same for every reason.
        ConfigError: The party's secret cannot be read.
    """
    plan, run, digest, home = proposal.plan, proposal.run, proposal.digest, proposal.home
    # A missing secret blocks every plan, so this error discloses nothing about this one.
    party.site.read_secret()
    with open_state(party.site) as state:
        stop = stopped(state, plan.federation.name)
    compared = _compared(party, digest)
    if clock.today() > plan.federation.terms.until:
        compared = ""  # Expired terms end current runs too.
    if stop is None and home.has(ADMITTED) and home.json(ADMITTED) == compared:
        return
    what, reasons = "not agreed", reasons_against(party, plan, proposal.day)
    month, runs = runs_of_month(party, plan)
    if not reasons:
        reasons = list(_against_terms(plan, runs, run))
    if not reasons and plan.epoch is not None and not home.has(EPOCH):
        reasons = list(_against_month(plan.epoch))
    if stop is not None:
        what, reasons = "stopped", _against_stop(stop)
    if not reasons:
        what, reasons = "gaps", _against_state(party, plan.federation, proposal.received)
        with open_state(party.site) as state:
            state.stores.note_check(len(reasons))
    if reasons:
        raise _refused(party, plan.federation, run, digest, what, reasons, home)
    home.write_json(ADMITTED, compared)
    if run not in runs:
        _federation_home(party, plan).write_json(f"{_RUNS}/{plan.purpose}", {month: [*runs, run]})


def runs_of_month(party: LocalParty, plan: Plan) -> tuple[str, list[str]]:
    """Return the current month and its runs of the plan's purpose that this party takes part in."""
    month = f"{clock.today():%Y-%m}"
    home, name = _federation_home(party, plan), f"{_RUNS}/{plan.purpose}"
    return month, list((home.json(name) if home.has(name) else {}).get(month, ()))


def _federation_home(party: LocalParty, plan: Plan) -> Home:
    return Home(party.site.home / plan.federation.name)


def _against_terms(plan: Plan, runs: Sequence[str], run: str) -> Iterator[str]:
    """Reasons from the agreed terms: they have ended, or the month's runs are used up."""
    terms = plan.federation.terms
    if clock.today() > terms.until:
        yield f"terms: the agreement was until {terms.until}"
    most = getattr(terms.runs_per_month, plan.purpose)
    if run not in runs and len(runs) >= most:
        yield f"terms: {most:,} {plan.purpose} runs a month are agreed, and this is another"


def require_not_stopped(
    party: LocalParty, federation: Federation, run: str, digest: str, home: Home
) -> None:
    """Refuse to publish for a run after the party has stopped taking part.

    Args:
        party: The party that is about to publish.
        federation: The plan's federation.
        run: The run's ID.
        digest: The plan's digest.
        home: The party's folder for the run.

    Raises:
        PolicyError: With the same message as `admit`.
    """
    with open_state(party.site) as state:
        stop = stopped(state, federation.name)
    if stop is not None:
        raise _refused(party, federation, run, digest, "stopped", _against_stop(stop), home)


def _against_stop(stop: Stop) -> list[str]:
    return [f"this party takes part in no run of it since {stop.at}"]


def _refused(
    party: LocalParty,
    federation: Federation,
    run: str,
    digest: str,
    what: str,
    reasons: list[str],
    home: Home,
) -> PolicyError:
    name = federation.name
    new = _note(party, name, federation.label_holder, run, digest, what, reasons, home)
    return refusal(party.name, name, run, _NOTICES.get(what, "") if new else "")


def refuse_unknown(
    party: LocalParty, federation: str, run: str, holder: str, why: str, home: Home
) -> PolicyError:
    """Return the refusal of a run whose label holder the party's policy does not name.

    Args:
        party: The party that refuses.
        federation: Name of the federation.
        run: The run's ID.
        holder: The label holder that opened the run.
        why: The reason, stored for the party's own people only.
        home: The party's folder for the run.
    """
    _note(party, federation, holder, run, "", "not agreed", [why], home)
    return refusal(party.name, federation, run)


def refusal(party: str, federation: str, run: str, notice: str = "") -> PolicyError:
    """Return the refusal that outsiders see: its message is the same for every reason.

    Args:
        party: The party that refuses.
        federation: Name of the federation.
        run: The run's ID.
        notice: Kind of notification to the party's own people.
    """
    return PolicyError(
        f"{party} refused run {run} of {federation} and releases nothing more of this run.",
        f"Its own people find why in its home folder, in {federation}/{run}/{REFUSED}; "
        "`opboost agree SITE FEDERATION` shows what is new in a federation file, "
        "`opboost ledger check SITE` what the party's state has lost, and `opboost resume SITE "
        "FEDERATION` ends a stop.",
        notice=notice,
    )


def reasons_against(party: LocalParty, plan: Plan, day: date) -> list[str]:
    """Return the reasons why a party refuses a plan, for its own people; empty if it accepts.

    Args:
        party: The party.
        plan: The plan.
        day: Date for which the validity of keys is judged.
    """
    try:
        agreements = agreements_of(party.site)
    except OpBoostError as error:
        return [str(error)]
    reasons = list(_against_agreement(agreements, plan, day))
    # Losses are computed only for a federation that has been agreed to.
    if not reasons:
        try:
            policy = trust.for_run(party.policy, agreements, plan.federation)
            require_consent(policy, plan.federation, party.name)
        except PolicyError as error:
            reasons.append(error.problem)
    return reasons


def _against_agreement(agreements: Agreements, plan: Plan, day: date) -> Iterator[str]:
    name = plan.federation.name
    if not agreements.of(name):
        yield f"agreement: {agreements.party} has not agreed to {name}"
        return
    if plan.protocol != PROTOCOL:
        yield f"protocol: the plan is of protocol {plan.protocol}, this software of {PROTOCOL}"
        return
    newest = agreements.newest(name)
    named = agreements.standing(name, plan.agreement)
    if plan.purpose == "train":
        if newest is None:
            yield "agreement: the newest one was withdrawn"
            return
        pinned = newest
        if named is not None and trust.alike_but_for_keys(named, newest):
            # Parties agree to a new key one after another; runs continue meanwhile.
            pinned = named
        elif named is None or named.digest != newest.digest:
            yield f"agreement: the plan is not under the newest, number {newest.number}"
    else:
        scored = trust.scored_under(agreements, name, plan.agreement, plan.model)
        if scored is None:
            yield (
                "agreement: the plan is under no agreement in force"
                if named is None
                else f"agreement: number {named.number} is no longer in force, and version "
                f"{plan.model} is not kept under it (`opboost agree --keep-version`)"
            )
        if (former := scored or named or newest) is None:
            return
        pinned = former
    if new := fields(pinned.content, plan.federation):
        yield f"differs from agreement {pinned.number} in {', '.join(new)}"
    yield from trust.against_newest(agreements, plan.federation, day)


def _against_month(month: str) -> Iterator[str]:
    if not month_keys.may_begin(month, month_keys.now()):
        yield f"month: by this party's clock {month} is over, or has not begun"


def _against_state(
    party: LocalParty, federation: Federation, received: Mapping[str, Checkpoint]
) -> list[str]:
    holder = federation.label_holder
    with open_state(party.site) as state:
        reasons = rolled_back(state, party.site, party.store, federation.name, received, holder)
        if party.name not in federation.feature_holders:
            return reasons
        for lost in state.releases.lost():
            if lost.receiver == holder:
                reasons.append(
                    f"pins: the file with the pins of {lost.feature} is gone, or is not the one "
                    "that the ledger points to: put the newest file back, or end its release "
                    "(`opboost ledger recover`)"
                )
        return reasons


def _compared(party: LocalParty, digest: str) -> str:
    """Return a digest of everything that a plan is compared with."""
    policy, software = party.policy.model_dump_json(), (__version__, PROTOCOL)
    try:
        agreed = agreements_of(party.site).fingerprint()
    except OpBoostError:
        # `reasons_against` refuses unreadable agreements, so this is never admitted.
        agreed = ""
    facts = (digest, agreed, policy, software)
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def _note(
    party: LocalParty,
    federation: str,
    holder: str,
    run: str,
    digest: str,
    what: str,
    reasons: list[str],
    home: Home,
) -> bool:
    """Store the reasons for the party's own people, and log them; return True if they are new."""
    text = "\n".join(reasons) + "\n"
    file = home.folder / REFUSED
    if file.is_file() and file.read_text(encoding="utf-8") == text:
        return False
    home.write(REFUSED, text.encode())
    short = "; ".join(reasons).split(", ")
    more = f", and {len(short) - _NAMED} more" if len(short) > _NAMED else ""
    with open_state(party.site) as state:
        detail = f"{what}: " + ", ".join(short[:_NAMED]) + more
        state.audit.add("rejected", f"{federation}/{run}/plan", holder, digest, detail)
    return True

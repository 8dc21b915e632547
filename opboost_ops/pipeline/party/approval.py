"""A release that needs a person: asked before anything is drawn, answered at home, obeyed here.

Only public facts decide whether a person is asked: the policy and the earlier releases.
The answer is an entry of the party's own audit log, bound to the plan that was asked about: to its
federation, its run and the keys of its parties. It is void for anything else. Before it no stage of
the party runs, because already a passed check and an answered query tell of its table. Who
answers may look at anything of the party's; so that it was asked, and what came of it, is told
exactly and stands in the ledger.
"""

import datetime
from collections.abc import Collection, Iterable, Sequence

from opboost_ops.config.federation import Federation
from opboost_ops.config.policy import Policy
from opboost_ops.config.public_keys import fingerprint
from opboost_ops.config.site import Site
from opboost_ops.errors import ApprovalError, ConfigError, PolicyError
from opboost_ops.exchange.audit import Action, Entry
from opboost_ops.exchange.party_state import PartyState, open_state
from opboost_ops.pipeline.home import Home
from opboost_ops.pipeline.protocol import STEPS
from opboost_ops.pipeline.runner.disclosures import announce
from opboost_ops.pipeline.runner.drawing import choices
from opboost_ops.pipeline.runner.publication import Publisher
from opboost_ops.privacy.ledger.entries import LedgerEntry

#: The step that draws what a release opens, and the one that may answer of values of the day.
_DRAWS = "desensitize"
_ROUTES = "answer_routes"

#: Where a run's home keeps what was approved, or needs no approval: nothing is asked twice.
_PASSED = "approved"

_PLACE = "approval"
_ANSWERS: tuple[Action, ...] = ("approved", "declined")

#: Hours after which an unanswered release is declined: two working days.
HOURS = 48

#: So many digits of a plan's digest are shown, and must be named in an answer.
PLAN_DIGITS = 16


def waits_since(state: PartyState, federation: str, run: str) -> str | None:
    """Since when a run waits for a person of the party, UTC; None where nobody is waited for.

    Args:
        state: The party's.
        federation: Name of the federation.
        run: The run's id.
    """
    return asked_since(state.audit.of("asked", *_ANSWERS), federation, run)


def asked_since(entries: Iterable[Entry], federation: str, run: str) -> str | None:
    """Since when a run waits for a person, by entries of the party's audit log; see `waits_since`.

    Args:
        entries: All of the run, oldest first; others are passed over.
        federation: Name of the federation.
        run: The run's id.
    """
    place = f"{federation}/{run}/{_PLACE}"
    matching = [e for e in entries if e.place == place and e.action in ("asked", *_ANSWERS)]
    return matching[-1].at if matching and matching[-1].action == "asked" else None


def is_over(since: str) -> bool:
    """Test whether the time in which a person may answer is over.

    Args:
        since: Time of the request, UTC.
    """
    requested = datetime.datetime.fromisoformat(since)
    return datetime.datetime.now(datetime.UTC) - requested > datetime.timedelta(hours=HOURS)


def require(
    party: Publisher,
    federation: Federation,
    run: str,
    plan: str,
    stages: Collection[str],
    home: Home,
    day: datetime.date,
) -> None:
    """Let a run go on that needs no person, or that one has approved; before its first stage.

    One answer is for all that the run releases.

    Args:
        party: Who is about to release.
        federation: The plan's.
        run: The run's id.
        plan: The plan's digest.
        stages: All that the party has in the run.
        home: The party's folder for the run.
        day: The plan's day.

    Raises:
        ApprovalError: Nobody has answered yet; nothing was drawn, charged or released.
        PolicyError: A person has declined, or nobody has answered in time.
    """
    passed = [plan, party.policy.approve]
    if home.has(_PASSED) and home.json(_PASSED) == passed:
        return
    with open_state(party.site) as state:
        opens: tuple[str, ...] = ()
        if _DRAWS in stages and party.policy.approve != "never":
            releases = choices(state, party, federation, run, day)
            opens = tuple(name for name, choice in releases.items() if choice.release is None)
        reasons = reasons_for(party.policy, federation, run, state.ledger.entries(), stages, opens)
        if not reasons:
            home.write_json(_PASSED, passed)
            return
        request, answer = _ask(state, party, federation, run, plan, reasons)
    state_name = "asked" if answer is None else answer.action
    words = {
        "asked": "that a person of the party must approve the release",
        "approved": "that a person of the party has approved the release",
        "declined": "that the release was declined, or that there was no answer in time",
    }
    announce(party, federation, run, f"approval_{state_name}", words[state_name])
    if answer is None:
        raise ApprovalError(
            f"{party.name} waits for a person's approval; it has released nothing of run {run}.",
            f"Its own people answer: `opboost approve SITE {run}`.",
            new=request is None,
        )
    if answer.action == "declined":
        raise PolicyError(
            f"The release of run {run} was declined at {party.name}; nothing of it was released.",
            "Its own people know why: `opboost audit` shows it. Begin another run to ask again.",
        )
    home.write_json(_PASSED, passed)


def confirm(
    party: Publisher, federation: Federation, run: str, plan: str, reasons: Collection[str]
) -> None:
    """Let the label holder use releases that need a person, once one has approved.

    Args:
        party: The label holder.
        federation: The plan's.
        run: The run's id.
        plan: The plan's digest.
        reasons: Why a person is needed, in public words.

    Raises:
        ApprovalError: Nobody has answered yet; nothing of the releases was used.
        PolicyError: A person has declined, or nobody has answered in time.
    """
    with open_state(party.site) as state:
        request, answer = _ask(state, party, federation, run, plan, reasons)
    if answer is None:
        raise ApprovalError(
            f"{party.name} waits for a person's approval of run {run}: {'; '.join(reasons)}.",
            f"Its own people answer: `opboost approve SITE {run}`.",
            new=request is None,
        )
    if answer.action == "declined":
        raise PolicyError(
            f"Run {run} was declined at {party.name}: {'; '.join(reasons)}.",
            "Begin another run when the release is as large as before.",
        )


def _ask(
    state: PartyState,
    party: Publisher,
    federation: Federation,
    run: str,
    plan: str,
    reasons: Collection[str],
) -> tuple[Entry | None, Entry | None]:
    """An earlier question about a plan and its answer; a new question is entered."""
    place = f"{federation.name}/{run}/{_PLACE}"
    request, answer = _said(state).get((place, plan), (None, None))
    if request is None:
        detail = f"{'; '.join(reasons)}. {_counterparties(federation, party.name)}"
        state.audit.add("asked", place, party.name, plan, detail)
    elif answer is None and is_over(request.at):
        detail = f"no answer in {HOURS} hours"
        state.audit.add("declined", request.place, party.name, plan, detail)
        answer = request.model_copy(update={"action": "declined", "detail": detail})
    return request, answer


def _counterparties(federation: Federation, party: str) -> str:
    """With whom a run is, by the fingerprints of their keys."""
    return "Parties: " + ", ".join(
        f"{name} ({fingerprint(spec.signing_key, spec.encryption_key)})"
        for name, spec in federation.parties.items()
        if name != party
    )


def reasons_for(
    policy: Policy,
    federation: Federation,
    run: str,
    entries: Iterable[LedgerEntry],
    stages: Collection[str],
    opens: Sequence[str],
) -> list[str]:
    """Why a release needs a person, in public words; empty if it needs none.

    Args:
        policy: The party's own.
        federation: The plan's.
        run: The run's id.
        entries: Of the party's ledger.
        stages: All that the party has in the run.
        opens: The features of which the run would open, and charge, a release.
    """
    if policy.approve == "never":
        return []
    receiver = federation.label_holder
    earlier = [e for e in entries if e.federation == federation.name and e.run != run]
    reasons: list[str] = []
    every = policy.approve == "every"
    released = any(e.account == "local_dp" and e.receiver == receiver for e in earlier)
    if _DRAWS in stages and opens and not released:
        reasons.append(f"it is the first release of {federation.name} to {receiver}")
    elif _DRAWS in stages and opens and every:
        reasons.append(f"a release of {', '.join(opens)} to {receiver} opens and is charged")
    # Pinned integers are disclosed once a release, which is asked about when it opens.
    daily = any(rule.routed == "every_run" for rule in policy.features.values())
    for step in (STEPS[stage] for stage in stages if STEPS[stage].approval):
        repeated = any(
            e.kind in step.publishes or e.kind.startswith(f"{step.name}_") for e in earlier
        )
        if not repeated or (every and (step.name != _ROUTES or daily)):
            words = step.approval.format(federation=federation.name, receiver=receiver)
            reasons.append(f"it is {'another' if repeated else 'the first'} {words}")
    return reasons


def waiting(site: Site, run: str) -> list[tuple[Entry, Entry | None]]:
    """Requests for approval of runs of an id, one per federation and plan, with their answers.

    Args:
        site: The party's.
        run: The runs' id.

    Raises:
        ConfigError: Nobody was asked about such a run.
    """
    with open_state(site) as state:
        by_plan = _said(state)
    requests = [pair for (place, _), pair in by_plan.items() if place.endswith(f"/{run}/{_PLACE}")]
    if not requests:
        raise ConfigError(
            f"Nobody was asked to approve run {run} at {site.party}.",
            "The message of its waiting task names the run.",
        )
    return requests


def answer(site: Site, run: str, plan: str, approve: bool, who: str, why: str) -> Entry:
    """Write a person's answer into the party's state; it is never changed again.

    Args:
        site: The party's.
        run: The run's id.
        plan: Digest of the plan that was read, or how it begins.
        approve: Whether the release may go.
        who: The person.
        why: In words.

    Returns:
        What was asked.

    Raises:
        ConfigError: Nobody was asked about that plan, or it was answered already.
    """
    of = [
        pair
        for pair in waiting(site, run)
        if len(plan) >= PLAN_DIGITS and pair[0].artifact.startswith(plan)
    ]
    if len(of) != 1:
        raise ConfigError(
            f"Nobody was asked to approve plan {plan} of run {run} at {site.party}.",
            f"`opboost approve SITE {run}` shows what waits, with the digest of its plan.",
        )
    ((request, before),) = of
    if before is not None:
        raise ConfigError(
            f"Run {run} was {before.action} at {before.at}: {before.detail}.",
            "A decision is final; start another run to ask again.",
        )
    action: Action = "approved" if approve else "declined"
    with open_state(site) as state:
        state.audit.add(action, request.place, site.party, request.artifact, f"{who}: {why}")
    return request


def _said(state: PartyState) -> dict[tuple[str, str], tuple[Entry, Entry | None]]:
    """By place and plan, what a person was asked and the first answer: no later one changes it."""
    requests: dict[tuple[str, str], Entry] = {}
    answers: dict[tuple[str, str], Entry] = {}
    for entry in state.audit.of("asked", *_ANSWERS):
        of = requests if entry.action == "asked" else answers
        of.setdefault((entry.place, entry.artifact), entry)
    return {key: (entry, answers.get(key)) for key, entry in requests.items()}

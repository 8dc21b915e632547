"""Human approval of releases: requested before any draw, answered at home, enforced here.

Only public facts decide whether approval is needed: the policy and the earlier releases.
The answer is an entry in the party's own audit log, bound to one plan: its federation, run and the
keys of its parties. It is void for any other plan. No stage of the party runs before the answer,
because even a passed check or an answered query discloses something about its table. The person
who answers may look at all of the party's data, so the request and its outcome are themselves
exact disclosures and are entered in the ledger.
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
from opboost_ops.pipeline.party.local_party import LocalParty
from opboost_ops.pipeline.protocol import STEPS
from opboost_ops.pipeline.runner.disclosures import announce
from opboost_ops.pipeline.runner.run_releases import choices
from opboost_ops.privacy.ledger.entries import LedgerEntry

#: The step that draws releases, and the step that may answer routes for changed values every run.
_DRAWS = "desensitize"
_ROUTES = "answer_routes"

#: File in a run's home that records an approval, or that none is needed: no second request.
_PASSED = "approved"

_PLACE = "approval"
_ANSWERS: tuple[Action, ...] = ("approved", "declined")

#: Hours until an unanswered request counts as declined: two working days.
HOURS = 48

#: Hex digits of a plan's digest that are shown and that an answer must repeat.
PLAN_DIGITS = 16


def waits_since(state: PartyState, federation: str, run: str) -> str | None:
    """Return the UTC time since which a run waits for approval; None if it does not wait.

    Args:
        state: The party's state.
        federation: Name of the federation.
        run: The run's ID.
    """
    return asked_since(state.audit.of("asked", *_ANSWERS), federation, run)


def asked_since(entries: Iterable[Entry], federation: str, run: str) -> str | None:
    """Return the time since which a run waits for approval, from audit log entries.

    Args:
        entries: Entries that include all of the run's, oldest first.
        federation: Name of the federation.
        run: The run's ID.
    """
    place = f"{federation}/{run}/{_PLACE}"
    matching = [e for e in entries if e.place == place and e.action in ("asked", *_ANSWERS)]
    return matching[-1].at if matching and matching[-1].action == "asked" else None


def is_over(since: str) -> bool:
    """Return True if the time to answer a request has passed.

    Args:
        since: Time of the request, UTC.
    """
    requested = datetime.datetime.fromisoformat(since)
    return datetime.datetime.now(datetime.UTC) - requested > datetime.timedelta(hours=HOURS)


def require(
    party: LocalParty,
    federation: Federation,
    run: str,
    plan: str,
    stages: Collection[str],
    home: Home,
    day: datetime.date,
) -> None:
    """Require human approval of a run before its first stage, if the policy asks for it.

    One answer covers all releases of the run.

    Args:
        party: The party that is about to release.
        federation: The plan's federation.
        run: The run's ID.
        plan: The plan's digest.
        stages: All stages of the party in the run.
        home: The party's folder for the run.
        day: The plan's date.

    Raises:
        ApprovalError: There is no answer yet; nothing was drawn, charged or released.
        PolicyError: The request was declined or expired.
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
    party: LocalParty, federation: Federation, run: str, plan: str, reasons: Collection[str]
) -> None:
    """Require approval at the label holder before it uses releases that need one.

    Args:
        party: The label holder.
        federation: The plan's federation.
        run: The run's ID.
        plan: The plan's digest.
        reasons: Public reasons why approval is needed.

    Raises:
        ApprovalError: There is no answer yet; none of the releases were used.
        PolicyError: The request was declined or expired.
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
    party: LocalParty,
    federation: Federation,
    run: str,
    plan: str,
    reasons: Collection[str],
) -> tuple[Entry | None, Entry | None]:
    """Return the earlier request about a plan and its answer; enter a request if there is none."""
    place = f"{federation.name}/{run}/{_PLACE}"
    request, answer = _requests_with_answers(state).get((place, plan), (None, None))
    if request is None:
        detail = f"{'; '.join(reasons)}. {_counterparties(federation, party.name)}"
        state.audit.add("asked", place, party.name, plan, detail)
    elif answer is None and is_over(request.at):
        detail = f"no answer in {HOURS} hours"
        state.audit.add("declined", request.place, party.name, plan, detail)
        answer = request.model_copy(update={"action": "declined", "detail": detail})
    return request, answer


def _counterparties(federation: Federation, party: str) -> str:
    """Describe the other parties of a run by the fingerprints of their keys."""
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
    """Return public reasons why a release needs approval; empty if it needs none.

    Args:
        policy: The party's policy.
        federation: The plan's federation.
        run: The run's ID.
        entries: Entries of the party's ledger.
        stages: All stages of the party in the run.
        opens: Features for which the run would open, and charge, a release.
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
    # Pinned integers are disclosed once per release; approval covers that when it opens.
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
    """Return the requests for approval of a run ID, one per federation and plan, with answers.

    Args:
        site: The party's site.
        run: The run's ID.

    Raises:
        ConfigError: There is no request for such a run.
    """
    with open_state(site) as state:
        by_plan = _requests_with_answers(state)
    requests = [pair for (place, _), pair in by_plan.items() if place.endswith(f"/{run}/{_PLACE}")]
    if not requests:
        raise ConfigError(
            f"Nobody was asked to approve run {run} at {site.party}.",
            "The message of its waiting task names the run.",
        )
    return requests


def answer(site: Site, run: str, plan: str, approve: bool, who: str, why: str) -> Entry:
    """Record a person's answer in the party's state; it is final.

    Args:
        site: The party's site.
        run: The run's ID.
        plan: Digest of the plan that was read, or at least its first `PLAN_DIGITS` digits.
        approve: True to approve, False to decline.
        who: The person.
        why: The reason, in words.

    Returns:
        The request.

    Raises:
        ConfigError: There is no request for that plan, or it was answered before.
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


def _requests_with_answers(state: PartyState) -> dict[tuple[str, str], tuple[Entry, Entry | None]]:
    """Return each request with its first answer, by place and plan; later answers are void."""
    requests: dict[tuple[str, str], Entry] = {}
    answers: dict[tuple[str, str], Entry] = {}
    for entry in state.audit.of("asked", *_ANSWERS):
        of = requests if entry.action == "asked" else answers
        of.setdefault((entry.place, entry.artifact), entry)
    return {key: (entry, answers.get(key)) for key, entry in requests.items()}

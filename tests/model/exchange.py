"""A model of the exchange, searched state by state.

One label holder and up to two feature holders run up to two runs at once. A feature holder
releases one column of one person. The state has what each party keeps, what lies in the store,
and what has left, which invariants look at. One party may be hostile. Faults can be planted: each
replaces one rule by a wrong one.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

LENDER = "lender"


class Artifact(NamedTuple):
    """An artifact in the store; equality is that of its digest."""

    run: int
    kind: str
    about: str
    signer: str
    content: tuple[int, ...] = ()
    answers: "Artifact | None" = None


class Release(NamedTuple):
    """A charged release: its number, its declaration, and the draw that is pinned in it."""

    number: int
    declaration: int
    draw: int = 0
    ended: bool = False


class State(NamedTuple):
    """What a feature holder's database has; a backup is a copy of it."""

    agreed: tuple[int, ...] = (1,)
    releases: tuple[Release, ...] = ()
    recorded: tuple[tuple[int, int], ...] = ()
    plans: tuple[tuple[int, Artifact], ...] = ()
    asked: int = 0
    queries: tuple[Artifact, ...] = ()
    entries: tuple[Artifact, ...] = ()
    number: int = 0
    forgotten: bool = False
    stopped: bool = False


class Sent(NamedTuple):
    """A publication, with what was true at that moment."""

    artifact: Artifact
    agreed: tuple[int, ...]
    charged: tuple[int, ...]
    reserved: bool
    asked: int
    plan: Artifact | None
    forgotten: bool
    stopped: bool
    rolled_back: bool


class Holder(NamedTuple):
    """A feature holder: its database, a backup, and what a process has in memory."""

    state: State = State()
    backup: State | None = None
    memory: tuple[tuple[int, int], ...] = ()
    seen: int = 0


class World(NamedTuple):
    """Everything; what was admitted, pinned and recorded is there for invariants alone."""

    holders: tuple[tuple[str, Holder], ...]
    store: frozenset[Artifact] = frozenset()
    accepted: frozenset[Artifact] = frozenset()
    sent: tuple[Sent, ...] = ()
    draws: int = 0
    events: int = 0
    admitted: frozenset[tuple[str, Artifact]] = frozenset()
    pinned: frozenset[tuple[str, int, int]] = frozenset()
    recorded: frozenset[tuple[str, int, int]] = frozenset()


@dataclass(frozen=True)
class Bounds:
    """How far the search goes.

    Attributes:
        holders: Feature holders.
        runs: Runs that may be under way at once.
        hostile: The party that ignores the protocol; empty if none does.
        budget: Releases that a policy pays for.
        cap: People whom a policy lets a receiver query.
        events: Crashes, rollbacks, erasures and the like in one history.
        steps: Longest history.
        faults: Planted faults.
    """

    holders: tuple[str, ...] = ("bank",)
    runs: int = 2
    hostile: str = ""
    budget: int = 2
    cap: int = 2
    events: int = 1
    steps: int = 9
    faults: frozenset[str] = frozenset()


Step = tuple[str, World]


def steps(world: World, bounds: Bounds) -> Iterator[Step]:
    """Every step that some party can make next: its name, and the world after it."""
    yield from _lender_steps(world, bounds)
    for name, holder in world.holders:
        if name != bounds.hostile:
            yield from _holder_steps(world, bounds, name, holder)
    if bounds.hostile and bounds.hostile != LENDER:
        yield from _forgeries(world, bounds)


def search(
    bounds: Bounds, invariants: "dict[str, Callable[[World, Bounds], bool]]"
) -> tuple[int, str, tuple[str, ...]]:
    """Visit all states up to a bound, the nearest first.

    Returns:
        How many states there are; and the first broken invariant with the steps that lead to it.
    """
    start = World(tuple((name, Holder()) for name in bounds.holders))
    paths: dict[World, tuple[World, str] | None] = {start: None}
    queue = deque([(start, 0)])
    while queue:
        world, depth = queue.popleft()
        for name, holds in invariants.items():
            if not holds(world, bounds):
                return len(paths), name, _path(paths, world)
        if depth == bounds.steps:
            continue
        for label, after in steps(world, bounds):
            if after not in paths:
                paths[after] = (world, label)
                queue.append((after, depth + 1))
    return len(paths), "", ()


def _path(paths: dict[World, tuple[World, str] | None], world: World) -> tuple[str, ...]:
    labels: list[str] = []
    while (before := paths[world]) is not None:
        world, label = before
        labels.append(label)
    return tuple(reversed(labels))


def _lender_steps(world: World, bounds: Bounds) -> Iterator[Step]:
    """The label holder's; a hostile one asks for what nobody has agreed to, and asks twice."""
    hostile = bounds.hostile == LENDER
    for run in range(1, bounds.runs + 1):
        plans = [a for a in world.store if (a.run, a.kind) == (run, "plan")]
        for declaration in (1, 2):
            plan = Artifact(run, "plan", LENDER, LENDER, (declaration,))
            if plan not in plans and (hostile or not plans):
                yield f"plan {run} {declaration}", _put(world, plan)
        for plan in plans:
            for name in bounds.holders:
                for people in (1, 3) if hostile else (1,):
                    query = Artifact(run, "query", name, LENDER, (people,), plan)
                    if query not in world.store:
                        yield f"query {run} {name} {people}", _put(world, query)
    for ranks in [a for a in world.store if a.kind == "ranks"]:
        honest = ranks.answers in world.store and ranks.signer == ranks.about
        if ranks not in world.accepted and (honest or "any_signer" in bounds.faults):
            accepted = world._replace(accepted=world.accepted | {ranks})
            yield f"accept {ranks.run} {ranks.about}", accepted
    for ranks in world.accepted:
        for run in range(1, bounds.runs + 1) if hostile else (ranks.run,):
            request = Artifact(run, "request", ranks.about, LENDER, (), ranks)
            if request not in world.store:
                yield f"request {run} {ranks.about} of {ranks.run}", _put(world, request)
    if hostile:
        # A request that answers nothing that was published.
        request = Artifact(1, "request", bounds.holders[0], LENDER)
        if request not in world.store:
            yield f"request 1 {request.about} of 0", _put(world, request)


def _forgeries(world: World, bounds: Bounds) -> Iterator[Step]:
    """What a hostile feature holder, who writes in the store, puts in the others' places."""
    for plan in [a for a in world.store if a.kind == "plan"]:
        for name in bounds.holders:
            forged = [Artifact(plan.run, "ranks", name, bounds.hostile, (0, 0), plan)]
            for ranks in [a for a in world.store if a[1:4] == ("ranks", name, name)]:
                forged.append(Artifact(ranks.run, "request", name, bounds.hostile, (), ranks))
            for artifact in forged:
                if artifact not in world.store:
                    yield f"forge {artifact.run} {artifact.kind} {name}", _put(world, artifact)


def _holder_steps(world: World, bounds: Bounds, name: str, holder: Holder) -> Iterator[Step]:
    state, faults = holder.state, bounds.faults
    for number in (1, 2):
        if number > state.agreed[-1]:
            agreed = state._replace(agreed=(*state.agreed, number))
            yield f"agree {name} {number}", _with(world, name, agreed)
    yield from _events(world, bounds, name, holder)
    if state.stopped and "stop_ignored" not in faults:
        return
    if holder.seen > state.number and "rollback_ignored" not in faults:
        return
    plans, recorded = dict(state.plans), dict(state.recorded)
    for plan in [a for a in world.store if a.kind == "plan" and a.signer == LENDER]:
        new = plan.run not in plans or "second_plan" in faults
        as_agreed = plan.content == state.agreed[-1:] or "any_plan" in faults
        if new and as_agreed and plans.get(plan.run) != plan:
            taken = tuple(sorted({**plans, plan.run: plan}.items()))
            admitted = world._replace(admitted=world.admitted | {(name, plan)})
            yield f"admit {name} {plan.run}", _with(admitted, name, state._replace(plans=taken))
    for run, plan in plans.items():
        yield from _release(world, bounds, name, holder, plan)
        yield from _answers(world, bounds, name, holder, plan)
        if run in recorded:
            release = _release_of(state, recorded[run])
            if release and not release.ended:
                yield from _publish(world, bounds, name, holder, plan, release)


def _release(
    world: World, bounds: Bounds, name: str, holder: Holder, plan: Artifact
) -> Iterator[Step]:
    """The transaction that chooses a run's release, charges it if it is new, and pins."""
    state, faults = holder.state, bounds.faults
    recorded = dict(state.recorded)
    if plan.run in recorded and "retry_chooses_again" not in faults:
        return
    declaration = plan.content[0]
    usable = [
        release
        for release in state.releases
        if not release.ended and release.declaration == declaration
    ]
    if usable:
        chosen, releases, draws = usable[-1], state.releases, world.draws
        if "each_run_draws" in faults and plan.run not in recorded:
            draws += 1
            chosen = chosen._replace(draw=draws)
            releases = tuple(r if r.number != chosen.number else chosen for r in releases)
    else:
        if len(state.releases) >= bounds.budget and "over_budget" not in faults:
            return
        draws = world.draws + 1
        draw = 0 if state.forgotten and "forgotten_pinned" not in faults else draws
        chosen = Release(len(state.releases) + 1, declaration, draw)
        releases = (*state.releases, chosen)
    if "late_charge" in faults and chosen not in state.releases:
        # The charge waits in memory until the rows have left.
        if not holder.memory:
            after = holder._replace(memory=((plan.run, draws),))
            yield f"release {name} {plan.run}", _with_holder(world, name, after, draws)
        return
    recorded[plan.run] = chosen.number
    after_state = state._replace(releases=releases, recorded=tuple(sorted(recorded.items())))
    if after_state != state:
        world = world._replace(
            draws=draws,
            pinned=world.pinned | {(name, chosen.number, chosen.draw)},
            recorded=world.recorded | {(name, plan.run, chosen.number)},
        )
        yield f"release {name} {plan.run}", _with(world, name, after_state)


def _publish(
    world: World,
    bounds: Bounds,
    name: str,
    holder: Holder,
    plan: Artifact,
    release: Release,
) -> Iterator[Step]:
    """Reserve in the ledger, then publish; a retry publishes the same bytes."""
    state, faults = holder.state, bounds.faults
    draw = release.draw
    if "fresh_retry" in faults:
        draw = world.draws + 1
    ranks = Artifact(plan.run, "ranks", name, name, (release.number, draw), plan)
    if ranks not in state.entries and "no_reservation" not in faults:
        entries = (*state.entries, ranks)
        yield f"reserve {name} {plan.run}", _with(world, name, state._replace(entries=entries))
        return
    places = {artifact[:4] for artifact in world.store}
    free = ranks[:4] not in places or "overwritten" in faults
    if ranks not in world.store and free:
        world = world._replace(draws=max(world.draws, draw))
        yield f"publish {name} {plan.run}", _sent(world, bounds, name, holder, ranks, plan)


def _answers(
    world: World, bounds: Bounds, name: str, holder: Holder, plan: Artifact
) -> Iterator[Step]:
    """Answers to queries, counted before they leave, and to split requests for own ranks."""
    state, faults = holder.state, bounds.faults
    for query in [a for a in world.store if a.kind == "query" and a.about == name]:
        if query.answers != plan and "any_query" not in faults:
            continue
        people = query.content[0]
        answer = Artifact(query.run, "answer", name, name, query.content, query)
        if query in state.queries or "uncounted" in faults:
            if answer not in world.store:
                yield f"answer {name} {query.run}", _sent(world, bounds, name, holder, answer, plan)
        elif state.asked + people <= bounds.cap or "no_cap" in faults:
            counted = state._replace(asked=state.asked + people, queries=(*state.queries, query))
            yield f"count {name} {query.run}", _with(world, name, counted)
    own = [a for a in world.store if a.kind == "ranks" and a.about == a.signer == name]
    for request in [a for a in world.store if a.kind == "request" and a.about == name]:
        ranks = request.answers
        linked = ranks in own and ranks is not None and ranks.run == request.run == plan.run
        signed = request.signer == LENDER or "any_requester" in faults
        if signed and (linked or "any_request" in faults):
            splits = Artifact(request.run, "splits", name, name, (), request)
            if splits not in world.store:
                yield (
                    f"splits {name} {request.run}",
                    _sent(world, bounds, name, holder, splits, plan),
                )


def _events(world: World, bounds: Bounds, name: str, holder: Holder) -> Iterator[Step]:
    """What happens to a party besides the protocol."""
    state = holder.state
    for run, draw in holder.memory:
        # With a late charge: the rows leave first.
        plan = dict(state.plans)[run]
        ranks = Artifact(run, "ranks", name, name, (len(state.releases) + 1, draw), plan)
        if ranks not in world.store:
            yield f"publish {name} {run}", _sent(world, bounds, name, holder, ranks, plan)
    if holder.seen > state.number:
        released = {a.content for a in _own_ranks(world, name)}
        known = {release.number for release in state.releases}
        lost = tuple(
            Release(number, 0, draw, True)
            for number, draw in sorted(released)
            if number not in known
        )
        ended = tuple(release._replace(ended=True) for release in state.releases)
        recovered = state._replace(
            releases=tuple(sorted((*ended, *lost))), recorded=(), number=holder.seen
        )
        if "recovery_charges_nothing" in bounds.faults:
            recovered = state._replace(number=holder.seen)
        yield f"recover {name}", _with(world, name, recovered)
    if world.events >= bounds.events:
        return
    world = world._replace(events=world.events + 1)
    if holder.memory:
        yield f"crash {name}", _with_holder(world, name, holder._replace(memory=()), world.draws)
    if holder.backup is None:
        kept = holder._replace(backup=state)
        quiet = world._replace(events=world.events - 1)
        yield f"backup {name}", _with_holder(quiet, name, kept, world.draws)
    elif holder.backup is not None and holder.backup != state:
        # A restore forgets again whom the party had forgotten.
        old = _forgetting(holder.backup) if state.forgotten else holder.backup
        # What was lost with the state and had not left matters no more.
        without = world._replace(admitted=frozenset(), pinned=frozenset(), recorded=frozenset())
        yield f"rollback {name}", _with(without, name, old)
    if not state.forgotten:
        gone = _forgetting(state)
        if "pins_stay" in bounds.faults:
            gone = state._replace(forgotten=True)
        yield f"forget {name}", _with(world, name, gone)
    if [release for release in state.releases if not release.ended]:
        ended = tuple(release._replace(ended=True, draw=0) for release in state.releases)
        yield f"renew {name}", _with(world, name, state._replace(releases=ended))
    if not state.stopped:
        yield f"stop {name}", _with(world, name, state._replace(stopped=True))


def _forgetting(state: State) -> State:
    pinned = tuple(release._replace(draw=0) for release in state.releases)
    return state._replace(forgotten=True, releases=pinned)


def _own_ranks(world: World, name: str) -> list[Artifact]:
    return [sent.artifact for sent in world.sent if sent.artifact[1:4] == ("ranks", name, name)]


def _release_of(state: State, number: int) -> Release | None:
    return next((release for release in state.releases if release.number == number), None)


def _put(world: World, artifact: Artifact) -> World:
    return world._replace(store=world.store | {artifact})


def _with(world: World, name: str, state: State) -> World:
    holder = dict(world.holders)[name]._replace(state=state)
    return _with_holder(world, name, holder, world.draws)


def _with_holder(world: World, name: str, holder: Holder, draws: int) -> World:
    holders = tuple((other, holder if other == name else its) for other, its in world.holders)
    return world._replace(holders=holders, draws=draws)


def _sent(
    world: World,
    bounds: Bounds,
    name: str,
    holder: Holder,
    artifact: Artifact,
    plan: Artifact,
) -> World:
    """The world after a publication; its checkpoint is seen by everybody who reads the store."""
    state = holder.state
    record = Sent(
        artifact,
        state.agreed,
        tuple(release.number for release in state.releases),
        artifact in state.entries,
        state.asked if artifact.answers in state.queries else -1,
        plan,
        state.forgotten,
        state.stopped,
        holder.seen > state.number,
    )
    number = max(state.number, holder.seen) + 1
    after = holder._replace(state=state._replace(number=number), seen=number)
    if holder.memory and artifact.kind == "ranks":
        # With a late charge: it is written now, unless a crash comes first.
        after = holder._replace(seen=number)
    world = _put(world, artifact)._replace(sent=(*world.sent, record))
    return _with_holder(world, name, after, world.draws)

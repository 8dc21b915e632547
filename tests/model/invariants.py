"""Invariants of the exchange: each docstring is a sentence of docs/guarantee.md."""

from collections import Counter
from collections.abc import Callable

from tests.model.exchange import LENDER, Bounds, Sent, World


def agreed_plans(world: World, _: Bounds) -> bool:
    """A party publishes only under a plan that it has agreed to."""
    return all(
        sent.plan is not None and sent.plan.content[0] in sent.agreed for sent in _last(world)
    )


def one_plan(world: World, _: Bounds) -> bool:
    """A party takes part in one plan per run."""
    return len(world.admitted) == len({(name, plan.run) for name, plan in world.admitted})


def answered_queries(world: World, _: Bounds) -> bool:
    """An answer leaves only to a query of the accepted plan."""
    return all(
        sent.artifact.answers is not None and sent.artifact.answers.answers == sent.plan
        for sent in _last(world, "answer")
    )


def counted_queries(world: World, _: Bounds) -> bool:
    """A query is counted before its answer leaves."""
    return all(sent.asked >= 0 for sent in _last(world, "answer"))


def query_cap(world: World, bounds: Bounds) -> bool:
    """The people who are queried are never more than the policy's cap."""
    return all(holder.state.asked <= bounds.cap for _, holder in world.holders)


def charged_first(world: World, _: Bounds) -> bool:
    """A release is charged before a row of it leaves."""
    return all(s.artifact.content[0] in s.charged for s in _last(world, "ranks"))


def within_budget(world: World, bounds: Bounds) -> bool:
    """The releases of a column are never more than its budget pays for."""
    return all(
        sum(release.declaration > 0 for release in holder.state.releases) <= bounds.budget
        for _, holder in world.holders
    )


def reserved_first(world: World, _: Bounds) -> bool:
    """An artifact with rows is in the ledger before it is in the store."""
    return all(sent.reserved for sent in _last(world, "ranks"))


def one_draw(world: World, _: Bounds) -> bool:
    """A person has one response in a release, whatever runs, retries and crashes there are."""
    sent = {(s.artifact.about, *s.artifact.content) for s in _ranks(world)}
    draws = {draw for draw in sent | world.pinned if draw[2]}
    return len(draws) == len({draw[:2] for draw in draws})


def one_release(world: World, _: Bounds) -> bool:
    """A run keeps the releases that it has recorded, also in a retry."""
    return len(world.recorded) == len({recorded[:2] for recorded in world.recorded})


def draws_are_charged(world: World, _: Bounds) -> bool:
    """No more independent responses of a person leave than releases are charged."""
    for name, holder in world.holders:
        sent = {s.artifact.content[1] for s in _ranks(world) if s.artifact.about == name} - {0}
        charged = len(holder.state.releases) if holder.seen <= holder.state.number else 99
        if len(sent) > charged:
            return False
    return True


def retries_repeat(world: World, _: Bounds) -> bool:
    """A retry publishes the same bytes: each place in the store is written once."""
    places = Counter(
        (a.run, a.kind, a.about)
        for a in world.store
        if a.signer == a.about and a.kind in ("ranks", "splits")
    )
    return all(count == 1 for count in places.values())


def own_splits(world: World, _: Bounds) -> bool:
    """Split values leave only for ranks that the party published in the same run."""
    for sent in _last(world, "splits"):
        request = sent.artifact.answers
        ranks = request.answers if request else None
        if (
            request is None
            or ranks is None
            or ranks.run != request.run
            or ranks.signer != sent.artifact.about
        ):
            return False
    return True


def signed_requests(world: World, _: Bounds) -> bool:
    """A feature holder answers requests that the label holder has signed, and no others."""
    answered = [sent.artifact.answers for sent in _last(world, "splits", "answer")]
    return all(request is not None and request.signer == LENDER for request in answered)


def signed_rows(world: World, _: Bounds) -> bool:
    """The label holder takes rows from the party whose place they are at, and from no other."""
    return all(artifact.signer == artifact.about for artifact in world.accepted)


def rolled_back(world: World, _: Bounds) -> bool:
    """A party whose state was rolled back publishes nothing until it has recovered."""
    return not any(sent.rolled_back for sent in _last(world))


def forgotten(world: World, _: Bounds) -> bool:
    """A person who was forgotten has no pin, and no response of theirs leaves any more."""
    pins = any(
        holder.state.forgotten and any(release.draw for release in holder.state.releases)
        for _, holder in world.holders
    )
    return not pins and not any(
        sent.forgotten and sent.artifact.content[1] for sent in _last(world, "ranks")
    )


def stopped(world: World, _: Bounds) -> bool:
    """A party that has stopped publishes nothing."""
    return not any(sent.stopped for sent in _last(world))


INVARIANTS: dict[str, Callable[[World, Bounds], bool]] = {
    check.__name__: check
    for check in (
        *(agreed_plans, one_plan, answered_queries, counted_queries, query_cap, charged_first),
        *(within_budget, reserved_first, one_draw, one_release, draws_are_charged, retries_repeat),
        *(own_splits, signed_requests, signed_rows, rolled_back, forgotten, stopped),
    )
}


def _last(world: World, *kinds: str) -> list[Sent]:
    """The newest publication: those before it were looked at in the states before."""
    return [sent for sent in world.sent[-1:] if not kinds or sent.artifact.kind in kinds]


def _ranks(world: World) -> list[Sent]:
    return [sent for sent in world.sent if sent.artifact.kind == "ranks"]

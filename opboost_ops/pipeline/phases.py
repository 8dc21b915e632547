"""The order of the protocol: in which phase which role runs which stages, in which Airflow tasks.

A task of Airflow costs a process, a slot and a look at the plan, most stages take under a second:
so a task runs a chain of stages of one party. A chain ends where a person may have to look, clear
or repeat: each data-quality check is a task of its own.

Light, because DAG files are made from it at every parse.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Literal, get_args

from opboost_ops.config.federation import Federation, Purpose, Role, ScoringMode

PhaseName = Literal[
    "open", "release", "psi", "train", "answer", "publish", "route", "register", "score",
    "own", "learn", "announce",
]  # fmt: skip

#: What a phase may wait for: artifacts of the phase before it.
Awaited = Literal[
    "psi_query", "psi_answer", "shares", "ranks", "split_request", "split_values", "values",
    "route_request", "routes",
]  # fmt: skip

#: Whose phase it is: a role, or in horizontal learning the active party, the others, or all.
Part = Role | Literal["everyone"]

#: The label holder's first stage, which no phase lists.
OPEN = "open_run"

#: The stage in which parties exchange messages of their own, and so run at the same time.
ROUNDS = "boost"


@dataclass(frozen=True)
class Chain:
    """Consecutive stages of a party that one task of Airflow runs.

    Attributes:
        name: The task's name: its main stage.
        stages: Its stages, in order.
    """

    name: str
    stages: tuple[str, ...]


@dataclass(frozen=True)
class Phase:
    """Stages that a party runs one after the other, without waiting for anybody in between.

    Attributes:
        name: Its name.
        role: Whose phase it is; all its parties run it side by side.
        chains: Its stages, in order; a task for each chain.
        beside: It needs nothing of the phase before but the plan, and runs beside it.
        awaits: Artifacts that it needs beside the plan: of every feature holder at the label
            holder, and at a feature holder those that are addressed to it.
    """

    name: PhaseName
    role: Part
    chains: tuple[Chain, ...]
    beside: bool = False
    awaits: tuple[Awaited, ...] = ()

    @property
    def stages(self) -> tuple[str, ...]:
        """Its stages, in order."""
        return tuple(stage for chain in self.chains for stage in chain.stages)

    def senders(self, federation: Federation) -> tuple[str, ...]:
        """Who sends what it awaits, by name; nobody where it awaits nothing.

        Args:
            federation: As declared.
        """
        if not self.awaits:
            return ()
        if self.role == "label_holder":
            return federation.feature_holders
        return (federation.label_holder,)

    def parties(self, federation: Federation) -> tuple[str, ...]:
        """Whose phase it is, by name.

        Args:
            federation: As declared.
        """
        return tuple(
            name
            for name, spec in federation.parties.items()
            if self.role in (spec.role, "everyone")
        )


def phases(federation: Federation, purpose: Purpose) -> tuple[Phase, ...]:
    """All phases of a run in their order; each begins when the one before has ended everywhere.

    One that is ``beside`` begins as soon as the run is open.

    Args:
        federation: As declared.
        purpose: What the run is for.
    """
    if federation.learning == "horizontal":
        return _HORIZONTAL[purpose]
    scoring, shares = federation.scoring, federation.has_shares
    if purpose == "train":
        return _training("routed" in scoring.modes, shares)
    return _scoring(scoring.mode, shares)


def stages_of(federation: Federation, purpose: Purpose, party: str) -> tuple[str, ...]:
    """All stages of one party in their order.

    Args:
        federation: As declared.
        purpose: What the run is for.
        party: Its name.
    """
    mine = (p for p in phases(federation, purpose) if party in p.parties(federation))
    return tuple(stage for phase in mine for stage in phase.stages)


def steps(federation: Federation, purpose: Purpose) -> Iterator[tuple[str, str]]:
    """All stages of all parties, as party and stage, in an order in which every input is there.

    Args:
        federation: As declared.
        purpose: What the run is for.
    """
    for phase in phases(federation, purpose):
        for party in phase.parties(federation):
            yield from ((party, stage) for stage in phase.stages)


def stages_by_task(federation: Federation, purpose: Purpose) -> dict[str, tuple[str, ...]]:
    """The stages of each task of a run that runs stages, by its id: ``<party>_<phase>.<name>``.

    Args:
        federation: As declared.
        purpose: What the run is for.
    """
    return {
        f"{party}_{phase.name}.{chain.name}": chain.stages
        for phase in phases(federation, purpose)
        for party in phase.parties(federation)
        for chain in phase.chains
    }


def tasks_with(stage: str) -> frozenset[str]:
    """Names of the tasks that run a stage, in any federation.

    Args:
        stage: Its name.
    """
    return frozenset(chain.name for chain in _every_chain() if stage in chain.stages)


def stages_in(task: str) -> frozenset[str]:
    """Stages that a task of this name runs, in any federation.

    Args:
        task: Its name, without its groups.
    """
    return frozenset(s for chain in _every_chain() if chain.name == task for s in chain.stages)


@cache
def _every_chain() -> frozenset[Chain]:
    made = [
        *_HORIZONTAL.values(),
        *(_training(routed, shares) for routed, shares in product((False, True), repeat=2)),
        *(_scoring(mode, shares) for mode in get_args(ScoringMode) for shares in (False, True)),
    ]
    return frozenset(chain for phases in made for phase in phases for chain in phase.chains)


def _alone(*stages: str) -> tuple[Chain, ...]:
    return tuple(Chain(stage, (stage,)) for stage in stages)


_LOOK = Chain("check_table", ("check_table", "check_drift"))
_ASK = Chain("psi_query", ("digest_ids", "psi_query"))
#: All that waits for the query: what a feature holder works out before is kept by earlier tasks.
_ANSWER = Chain("psi_answer", ("seal", "psi_answer"))
#: By this alone Airflow knows that there is a new champion: without one it is skipped.
_ANNOUNCE = _alone("announce_champion")

_OWN_TABLES = (
    Phase("open", "active", (_LOOK,)),
    Phase("own", "passive", (_LOOK,), beside=True),
)
_HORIZONTAL: Mapping[Purpose, tuple[Phase, ...]] = {
    "train": (
        *_OWN_TABLES,
        Phase(
            "learn",
            "everyone",
            (
                # Apart, since rounds that were broken off are tried again.
                *_alone("encode_rows", ROUNDS, "check_model"),
                Chain("register", ("evaluate_own", "register")),
            ),
        ),
        Phase("announce", "active", _ANNOUNCE),
    ),
    "score": (
        *_OWN_TABLES,
        Phase("score", "everyone", _alone("score", "check_scores", "write_scores")),
    ),
}


def _released(*randomised: str) -> tuple[Phase, ...]:
    """Up to what feature holders seal: it follows from their own tables and the plan alone."""
    release = Chain("desensitize", ("digest_ids", "preprocess", *randomised))
    return (
        Phase("open", "label_holder", (_LOOK, _ASK)),
        Phase("release", "feature_holder", (_LOOK, release, *_alone("check_release")), beside=True),
        Phase("psi", "feature_holder", (_ANSWER,), awaits=("psi_query",)),
    )


def _training(routed: bool, has_shares: bool) -> tuple[Phase, ...]:
    shares: tuple[Awaited, ...] = ("shares",) if has_shares else ()
    train = (
        Chain("assemble", ("open_rows", "assemble")),
        *_alone("check_frame"),
        Chain("train", ("train", "request_splits")),
    )
    model = _alone("materialise", "check_model")
    end = (Chain("register", ("evaluate", "register")), *_ANNOUNCE)
    first = (
        *_released("desensitize", "rank"),
        Phase("train", "label_holder", train, awaits=("psi_answer", *shares, "ranks")),
        Phase("answer", "feature_holder", _alone("answer_splits"), awaits=("split_request",)),
    )
    values: tuple[Awaited, ...] = ("split_values",)
    if not routed:
        return (*first, Phase("publish", "label_holder", (*model, *end), awaits=values))
    return (
        *first,
        Phase("publish", "label_holder", (*model, *_alone("request_routes")), awaits=values),
        Phase("route", "feature_holder", _alone("answer_routes"), awaits=("route_request",)),
        Phase("register", "label_holder", end, awaits=("routes",)),
    )


def _scoring(mode: ScoringMode, has_shares: bool) -> tuple[Phase, ...]:
    last = _alone("check_scores", "write_scores")
    if mode == "local":
        return (
            Phase("open", "label_holder", (_LOOK,)),
            Phase("score", "label_holder", (*_alone("score"), *last)),
        )
    shares: tuple[Awaited, ...] = ("shares",) if has_shares else ()
    score = (Chain("score", ("open_rows", "score")), *last)
    if mode == "routed":
        ask = Chain("psi_query", (*_ASK.stages, "request_routes"))
        answer = Chain("psi_answer", ("psi_answer", "answer_routes"))
        wanted: tuple[Awaited, ...] = ("psi_query", "route_request")
        own = Chain("desensitize", ("digest_ids", "preprocess", "desensitize"))
        return (
            Phase("open", "label_holder", (_LOOK, ask)),
            Phase("release", "feature_holder", (_LOOK, own), beside=True),
            Phase("psi", "feature_holder", (answer,), awaits=wanted),
            Phase("score", "label_holder", score, awaits=("psi_answer", *shares, "routes")),
        )
    return (
        *_released("desensitize"),
        Phase("score", "label_holder", score, awaits=("psi_answer", *shares, "values")),
    )

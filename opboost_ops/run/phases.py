"""The order of the protocol: in which phase which role runs which stages.

Light, because DAG files are made from it at every parse.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from opboost_ops.config.federation import Federation, Party, Purpose, Role

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
Part = Role | Literal["active", "passive", "everyone"]

#: Stages that a party which declares ``shards`` runs once for each file of its table.
SHARDED = ("preprocess", "desensitize", "encode_rows")

#: The stage in which parties exchange messages of their own, and so run at the same time.
ROUNDS = "boost"


@dataclass(frozen=True)
class Phase:
    """Stages that a party runs one after the other, without waiting for anybody in between.

    Attributes:
        name: Its name.
        role: Whose phase it is; all its parties run it side by side.
        stages: Its stages, in order, at a party whose table is one piece.
        beside: It needs nothing of the phase before but the plan, and runs beside it.
        awaits: Artifacts that it needs beside the plan: of every feature holder at the label
            holder, and at a feature holder those that are addressed to it.
    """

    name: PhaseName
    role: Part
    stages: tuple[str, ...]
    beside: bool = False
    awaits: tuple[Awaited, ...] = ()

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
        if self.role in ("label_holder", "feature_holder"):
            return tuple(n for n, spec in federation.parties.items() if spec.role == self.role)
        active = federation.label_holder
        takes_part = {"active": (True,), "passive": (False,), "everyone": (True, False)}[self.role]
        return tuple(name for name in federation.parties if (name == active) in takes_part)

    def stages_at(self, party: Party) -> tuple[str, ...]:
        """Its stages at a party: where shards are declared, two more enclose those of a file.

        Args:
            party: As declared.
        """
        sharded = [at for at, stage in enumerate(self.stages) if stage in SHARDED]
        if not party.shards or not sharded:
            return self.stages
        first, end = sharded[0], sharded[-1] + 1
        before, each, after = self.stages[:first], self.stages[first:end], self.stages[end:]
        return (*before, "list_shards", *each, "merge_shards", *after)


def phases(federation: Federation, purpose: Purpose) -> tuple[Phase, ...]:
    """All phases of a run in their order; each begins when the one before has ended everywhere.

    One that is ``beside`` begins as soon as the run is open.

    Args:
        federation: As declared.
        purpose: What the run is for.
    """
    if federation.learning == "horizontal":
        return _HORIZONTAL[purpose]
    return _training(federation) if purpose == "train" else _scoring(federation)


def stages_of(federation: Federation, purpose: Purpose, party: str) -> tuple[str, ...]:
    """All stages of one party in their order.

    Args:
        federation: As declared.
        purpose: What the run is for.
        party: Its name.
    """
    spec = federation.parties[party]
    mine = (p for p in phases(federation, purpose) if party in p.parties(federation))
    return tuple(stage for phase in mine for stage in phase.stages_at(spec))


def steps(federation: Federation, purpose: Purpose) -> Iterator[tuple[str, str]]:
    """All stages of all parties, as party and stage, in an order in which every input is there.

    Args:
        federation: As declared.
        purpose: What the run is for.
    """
    for phase in phases(federation, purpose):
        for party in phase.parties(federation):
            spec = federation.parties[party]
            yield from ((party, stage) for stage in phase.stages_at(spec))


_FIRST = ("check_table", "check_drift", "digest_ids")

_LOOK = (
    Phase("open", "active", ("check_table", "check_drift")),
    Phase("own", "passive", ("check_table", "check_drift"), beside=True),
)
_HORIZONTAL: Mapping[Purpose, tuple[Phase, ...]] = {
    "train": (
        *_LOOK,
        Phase(
            "learn",
            "everyone",
            ("encode_rows", ROUNDS, "check_model", "evaluate_own", "register"),
        ),
        Phase("announce", "active", ("announce_champion",)),
    ),
    "score": (*_LOOK, Phase("score", "everyone", ("score", "check_scores", "write_scores"))),
}


def _shares(federation: Federation) -> tuple[Awaited, ...]:
    return ("shares",) if federation.has_shares else ()


def _training(federation: Federation) -> tuple[Phase, ...]:
    release = ("preprocess", "desensitize", "rank", "check_release", "seal")
    train = ("open_rows", "assemble", "check_frame", "train", "request_splits")
    model = ("materialise", "check_model")
    end = ("evaluate", "register", "announce_champion")
    opened: tuple[Awaited, ...] = ("psi_answer", *_shares(federation), "ranks")
    first = (
        Phase("open", "label_holder", (*_FIRST, "psi_query")),
        # What a feature holder seals follows from its own table and the plan alone.
        Phase("release", "feature_holder", (*_FIRST, *release), beside=True),
        Phase("psi", "feature_holder", ("psi_answer",), awaits=("psi_query",)),
        Phase("train", "label_holder", train, awaits=opened),
        Phase("answer", "feature_holder", ("answer_splits",), awaits=("split_request",)),
    )
    values: tuple[Awaited, ...] = ("split_values",)
    if "routed" not in federation.scoring.modes:
        return (*first, Phase("publish", "label_holder", (*model, *end), awaits=values))
    return (
        *first,
        Phase("publish", "label_holder", (*model, "request_routes"), awaits=values),
        Phase("route", "feature_holder", ("answer_routes",), awaits=("route_request",)),
        Phase("register", "label_holder", end, awaits=("routes",)),
    )


def _scoring(federation: Federation) -> tuple[Phase, ...]:
    score = ("score", "check_scores", "write_scores")
    mode = federation.scoring.mode
    if mode == "local":
        return (
            Phase("open", "label_holder", ("check_table", "check_drift")),
            Phase("score", "label_holder", score),
        )
    shares = _shares(federation)
    if mode == "routed":
        return (
            Phase("open", "label_holder", (*_FIRST, "psi_query", "request_routes")),
            Phase("release", "feature_holder", (*_FIRST, "preprocess"), beside=True),
            Phase(
                "psi",
                "feature_holder",
                ("psi_answer", "answer_routes"),
                awaits=("psi_query", "route_request"),
            ),
            Phase(
                "score",
                "label_holder",
                ("open_rows", *score),
                awaits=("psi_answer", *shares, "routes"),
            ),
        )
    release = ("preprocess", "desensitize", "check_release", "seal")
    return (
        Phase("open", "label_holder", (*_FIRST, "psi_query")),
        Phase("release", "feature_holder", (*_FIRST, *release), beside=True),
        Phase("psi", "feature_holder", ("psi_answer",), awaits=("psi_query",)),
        Phase(
            "score",
            "label_holder",
            ("open_rows", *score),
            awaits=("psi_answer", *shares, "values"),
        ),
    )

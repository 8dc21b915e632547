"""The order of the protocol: in which phase which role runs which stages.

Light, because DAG files are made from it at every parse.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from opboost_ops.config.federation import Federation, Party, Role

#: What a run is for.
Purpose = Literal["train", "score"]

PhaseName = Literal[
    "open", "ids", "align", "release", "train", "answer", "publish", "route", "register", "score"
]

#: Stages that a party which declares ``shards`` runs once for each file of its table.
SHARDED = ("preprocess", "desensitize")


@dataclass(frozen=True)
class Phase:
    """Stages that a party runs one after the other, without waiting for anybody in between.

    Attributes:
        name: Its name.
        role: Whose phase it is; all parties of a role run it side by side.
        stages: Its stages, in order, at a party whose table is one piece.
    """

    name: PhaseName
    role: Role
    stages: tuple[str, ...]

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

    ``ids`` alone runs beside ``open``, as soon as the run is open.

    Args:
        federation: As declared.
        purpose: What the run is for.
    """
    return _training(federation) if purpose == "train" else _scoring(federation)


def stages_of(federation: Federation, purpose: Purpose, party: str) -> tuple[str, ...]:
    """All stages of one party in their order.

    Args:
        federation: As declared.
        purpose: What the run is for.
        party: Its name.
    """
    spec = federation.parties[party]
    mine = (phase for phase in phases(federation, purpose) if phase.role == spec.role)
    return tuple(stage for phase in mine for stage in phase.stages_at(spec))


def steps(federation: Federation, purpose: Purpose) -> Iterator[tuple[str, str]]:
    """All stages of all parties, as party and stage, in an order in which every input is there.

    Args:
        federation: As declared.
        purpose: What the run is for.
    """
    for phase in phases(federation, purpose):
        for party, spec in federation.parties.items():
            if spec.role == phase.role:
                yield from ((party, stage) for stage in phase.stages_at(spec))


_FIRST = ("check_table", "check_drift", "digest_ids")


def _training(federation: Federation) -> tuple[Phase, ...]:
    model = ("materialise", "check_model")
    end = ("evaluate", "register", "announce_champion")
    release = ("preprocess", "desensitize", "rank", "check_release", "publish")
    train = ("accept", "assemble", "check_frame", "train", "request_splits")
    first = (
        Phase("open", "label_holder", _FIRST),
        Phase("ids", "feature_holder", _FIRST),
        Phase("align", "label_holder", ("align",)),
        Phase("release", "feature_holder", release),
        Phase("train", "label_holder", train),
        Phase("answer", "feature_holder", ("answer_splits",)),
    )
    if "routed" not in federation.scoring.modes:
        return (*first, Phase("publish", "label_holder", (*model, *end)))
    return (
        *first,
        Phase("publish", "label_holder", (*model, "request_routes")),
        Phase("route", "feature_holder", ("answer_routes",)),
        Phase("register", "label_holder", end),
    )


def _scoring(federation: Federation) -> tuple[Phase, ...]:
    score = ("score", "check_scores", "write_scores")
    if federation.scoring.mode == "local":
        return (
            Phase("open", "label_holder", ("check_table", "check_drift")),
            Phase("score", "label_holder", score),
        )
    routed = federation.scoring.mode == "routed"
    release = ("preprocess", "desensitize", "check_release", "publish")
    answer = Phase("route", "feature_holder", ("preprocess", "answer_routes"))
    return (
        Phase("open", "label_holder", _FIRST),
        Phase("ids", "feature_holder", _FIRST),
        Phase("align", "label_holder", ("align", "request_routes") if routed else ("align",)),
        answer if routed else Phase("release", "feature_holder", release),
        Phase("score", "label_holder", ("accept", *score)),
    )

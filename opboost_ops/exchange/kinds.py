"""The kinds of artifact: who signs and reads each, in which runs, what it answers and contains.

Manifests, the order of acceptance and the forms of files follow from this table. Light, because
DAG files are made from it at every parse.
"""

from dataclasses import dataclass
from typing import Literal, cast

from opboost_ops.config.federation import Federation, Purpose

#: Runs by what they are for, and by what passes between the parties.
RunType = Literal[
    "train", "train_routed", "train_horizontal",
    "score_local", "score_desensitised", "score_routed", "score_horizontal",
]  # fmt: skip

TRAIN: tuple[RunType, ...] = ("train", "train_routed")
ROUTED: tuple[RunType, ...] = ("train_routed", "score_routed")
#: Feature holders release randomised values.
RELEASED: tuple[RunType, ...] = (*TRAIN, "score_desensitised")
#: The label holder queries people.
QUERIED: tuple[RunType, ...] = (*RELEASED, "score_routed")
HORIZONTAL: tuple[RunType, ...] = ("train_horizontal", "score_horizontal")
EVERY: tuple[RunType, ...] = (*QUERIED, "score_local", *HORIZONTAL)


def run_type(federation: Federation, purpose: Purpose) -> RunType:
    """The type of a federation's runs.

    Args:
        federation: As declared.
        purpose: What the run is for.
    """
    if federation.learning == "horizontal":
        return cast(RunType, f"{purpose}_horizontal")
    if purpose == "score":
        return cast(RunType, f"score_{federation.scoring.mode}")
    return "train_routed" if "routed" in federation.scoring.modes else "train"


@dataclass(frozen=True)
class ArtifactKind:
    """A kind of artifact.

    Attributes:
        name: Its name.
        runs: The runs that have it.
        signer: Who alone may sign it; ``party``: the one that it is about.
        reader: Whom it is addressed to.
        content: Its files.
        answers: The kinds that it may answer; in a run, it answers the first one that the run has.
        columns: Its columns: all that the party releases, with their losses; some of these; or
            those of what it answers.
        rows: Its row count: of the party's table, at most that, or of what it answers.
        with_several: Only runs with several feature holders have it.
        total: The sum of bytes that it counts towards; see `artifact_sizes`.
        words: Its name where people read it.
    """

    name: str
    runs: tuple[RunType, ...]
    signer: Literal["label_holder", "party"]
    reader: Literal["label_holder", "party", "all"]
    content: Literal["document", "vector", "points", "shares", "sealed_rows"]
    answers: tuple[str, ...] = ()
    columns: Literal["", "released", "some", "answered"] = ""
    rows: Literal["", "table", "some", "answered"] = ""
    with_several: bool = False
    total: Literal["", "align", "feature_holders_total", "holdout"] = ""
    words: str = ""


#: All kinds, in the order of the protocol.
_KINDS = (
    ArtifactKind("plan", EVERY, "label_holder", "all", "document"),
    ArtifactKind(
        "psi_query", QUERIED, "label_holder", "party", "points",
        answers=("plan",), total="align", words="blinded IDs",
    ),
    ArtifactKind(
        "psi_answer", QUERIED, "party", "label_holder", "points",
        answers=("psi_query",), rows="answered", total="align", words="answer to blinded IDs",
    ),
    ArtifactKind(
        "shares", QUERIED, "party", "label_holder", "shares",
        answers=("plan",), rows="table", with_several=True, total="align",
    ),
    ArtifactKind(
        "ranks", TRAIN, "party", "label_holder", "sealed_rows",
        answers=("plan",), columns="released", rows="table", total="feature_holders_total",
    ),
    ArtifactKind(
        "split_request", TRAIN, "label_holder", "party", "document",
        answers=("ranks",), columns="some",
    ),
    ArtifactKind(
        "split_values", TRAIN, "party", "label_holder", "document",
        answers=("split_request",), columns="answered", rows="answered",
        total="feature_holders_total",
    ),
    ArtifactKind(
        "values", ("score_desensitised",), "party", "label_holder", "sealed_rows",
        answers=("plan",), columns="released", rows="table",
    ),
    ArtifactKind(
        "route_request", ROUTED, "label_holder", "party", "document",
        answers=("split_values", "plan"), columns="some",
    ),
    ArtifactKind(
        "routes", ROUTED, "party", "label_holder", "sealed_rows",
        answers=("route_request",), columns="answered", rows="some", total="holdout",
    ),
    # Messages of rounds, of which a run has many; secrets in those for all are encrypted.
    ArtifactKind("round_key", ("train_horizontal",), "party", "all", "document"),
    ArtifactKind("masked", ("train_horizontal",), "party", "label_holder", "vector"),
    ArtifactKind("decision", ("train_horizontal",), "label_holder", "all", "document"),
)  # fmt: skip

#: Kinds by name.
KINDS = {kind.name: kind for kind in _KINDS}


def kinds_of(federation: Federation, purpose: Purpose) -> tuple[ArtifactKind, ...]:
    """The kinds that a run has, in the order of the protocol.

    Args:
        federation: The plan's.
        purpose: What the run is for.
    """
    run, several = run_type(federation, purpose), federation.has_shares
    return tuple(k for k in KINDS.values() if run in k.runs and (several or not k.with_several))

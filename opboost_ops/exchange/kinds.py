"""The kinds of artifact: who signs and reads each, its runs, its content and its disclosures.

Manifests, the order of acceptance and the forms of files are derived from this table. The module
imports quickly, because DAG files use it at every parse.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, cast

from opboost_ops.config.federation import Federation, Purpose

#: Types of runs, by purpose and by what the parties exchange.
RunType = Literal[
    "train", "train_routed", "train_horizontal",
    "score_local", "score_desensitised", "score_routed", "score_horizontal",
]  # fmt: skip

TRAIN: tuple[RunType, ...] = ("train", "train_routed")
ROUTED: tuple[RunType, ...] = ("train_routed", "score_routed")
#: Runs in which feature holders release randomised values.
RELEASED: tuple[RunType, ...] = (*TRAIN, "score_desensitised")
#: Runs in which the label holder queries people.
QUERIED: tuple[RunType, ...] = (*RELEASED, "score_routed")
HORIZONTAL: tuple[RunType, ...] = ("train_horizontal", "score_horizontal")
EVERY: tuple[RunType, ...] = (*QUERIED, "score_local", *HORIZONTAL)


def run_type(federation: Federation, purpose: Purpose) -> RunType:
    """Return the type of a federation's runs.

    Args:
        federation: The declared federation.
        purpose: Purpose of the run.
    """
    if federation.learning == "horizontal":
        return cast(RunType, f"{purpose}_horizontal")
    if purpose == "score":
        return cast(RunType, f"score_{federation.scoring.mode}")
    return "train_routed" if "routed" in federation.scoring.modes else "train"


#: Text on an exact disclosure, outside any epsilon, or a function of the federation that returns
#: it; empty if nothing is disclosed.
DisclosureText = str | Callable[[Federation], str]


def text_for(text: DisclosureText, federation: Federation) -> str:
    """Return the text on an exact disclosure in a federation.

    Args:
        text: The declaration of a kind or step.
        federation: The federation as declared.
    """
    return text if isinstance(text, str) else text(federation)


@dataclass(frozen=True)
class ArtifactKind:
    """A kind of artifact.

    Attributes:
        name: Name of the kind.
        runs: Types of runs that have it.
        signer: The only party that may sign it; ``party`` is the one that it is about.
        reader: The party that it is addressed to.
        content: Its files.
        answers: Kinds that it may answer; in a run, it answers the first of them that the run has.
        columns: Its columns: all that the party releases, with their losses; some of these; or
            those of the artifact that it answers.
        rows: Its row count: that of the party's table, at most that, or that of the artifact that
            it answers.
        with_several: Whether only runs with several feature holders have it.
        total: The sum of bytes that it counts towards; see `artifact_sizes`.
        words: Its display name.
        discloses: What it discloses exactly to its reader; an entry of its sender's ledger.
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
    discloses: DisclosureText = ""


def _answered(federation: Federation) -> str:
    if federation.has_shares:
        return (
            "for each person queried, whether all parties have them (membership), in every run of "
            "the month; not which party lacks a person that another one has"
        )
    return (
        "for each person queried, whether the table has them (membership), in every run of the "
        "month"
    )


def _sealed(federation: Federation) -> str:
    opened = "all feature holders have" if federation.has_shares else "the party has"
    return (
        "row count; in every run of the month, the rows of the people queried in it that "
        f"{opened}; which randomised values occur in the table"
    )


def _splits(federation: Federation) -> str:
    if federation.training.tuning is not None:
        return (
            "at which ranks of each feature the trees of the tuning's winner split (structure of "
            "the labels, and of which parameters won); other trials send no requests"
        )
    if federation.training.private is not None:
        return (
            "at which codes of each feature the trees split; it follows from the model, charged "
            "apart"
        )
    return "at which ranks of each feature the trees split (structure of the labels)"


#: All kinds, in the order of the protocol.
_KINDS = (
    ArtifactKind(
        "plan", EVERY, "label_holder", "all", "document",
        discloses="nothing beyond the public federation file and the name of a model version",
    ),
    ArtifactKind(
        "psi_query", QUERIED, "label_holder", "party", "points",
        answers=("plan",), total="align", words="blinded IDs",
        discloses="how many people are queried for the first time in the month; the blinded IDs do "
        "not reveal identities",
    ),
    ArtifactKind(
        "psi_answer", QUERIED, "party", "label_holder", "points",
        answers=("psi_query",), rows="answered", total="align", words="answer to blinded IDs",
        discloses=_answered,
    ),
    ArtifactKind(
        "shares", QUERIED, "party", "label_holder", "shares",
        answers=("plan",), rows="table", with_several=True, total="align",
        discloses="row count; with the other feature holders' shares and rows, which of the people "
        "queried all of them have, even in a run in which this party releases no rows; nothing "
        "about people whom the label holder has not queried",
    ),
    ArtifactKind(
        "ranks", TRAIN, "party", "label_holder", "sealed_rows",
        answers=("plan",), columns="released", rows="table", total="feature_holders_total",
        discloses=_sealed,
    ),
    ArtifactKind(
        "split_request", TRAIN, "label_holder", "party", "document",
        answers=("ranks",), columns="some", discloses=_splits,
    ),
    ArtifactKind(
        "split_values", TRAIN, "party", "label_holder", "document",
        answers=("split_request",), columns="answered", rows="answered",
        total="feature_holders_total",
        discloses="the randomised domain values at the ranks that trees use, and ranks at the "
        "thresholds of the version compared to; they follow from values that were already "
        "randomised and charged",
    ),
    ArtifactKind(
        "values", ("score_desensitised",), "party", "label_holder", "sealed_rows",
        answers=("plan",), columns="released", rows="table", discloses=_sealed,
    ),
    ArtifactKind(
        "route_request", ROUTED, "label_holder", "party", "document",
        answers=("split_values", "plan"), columns="some",
        discloses="at which values of each feature the trees split (structure of the labels)",
    ),
    ArtifactKind(
        "routes", ROUTED, "party", "label_holder", "sealed_rows",
        answers=("route_request",), columns="answered", rows="some", total="holdout",
        discloses="for every row that the label holder can open, on which side of these thresholds "
        "its value lies, exactly: the domain value up to the thresholds",
    ),
    # Messages of rounds, which a run has many of; secrets in those for all parties are encrypted.
    ArtifactKind("round_key", ("train_horizontal",), "party", "all", "document"),
    ArtifactKind("masked", ("train_horizontal",), "party", "label_holder", "vector"),
    ArtifactKind("decision", ("train_horizontal",), "label_holder", "all", "document"),
)  # fmt: skip

#: Kinds by name.
KINDS = {kind.name: kind for kind in _KINDS}


def kinds_of(federation: Federation, purpose: Purpose) -> tuple[ArtifactKind, ...]:
    """Return the kinds of a run, in protocol order.

    Args:
        federation: The federation of the plan.
        purpose: Purpose of the run.
    """
    run, several = run_type(federation, purpose), federation.has_shares
    return tuple(k for k in KINDS.values() if run in k.runs and (several or not k.with_several))


def disclosure(kind: str, federation: Federation) -> str:
    """Return what an artifact discloses exactly to its reader.

    Args:
        kind: Name of the kind.
        federation: The federation as declared.
    """
    return text_for(KINDS[kind].discloses, federation)

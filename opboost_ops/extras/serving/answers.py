"""The endpoint's answer: the score, the version, and the age of other parties' values."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

#: What became of a party's values of a person: as released; released and older than declared; in
#: no accepted run; the party lacks the person; the party has left.
State = Literal["current", "old", "unknown", "absent", "withdrawn"]

#: All of them, so that an array of numbers names them.
STATES: tuple[State, ...] = ("current", "old", "unknown", "absent", "withdrawn")


@dataclass(frozen=True)
class Partner:
    """Another party's part in a score.

    Attributes:
        state: What became of its values.
        age_days: How old they are; None where there are none.
        used: Whether the score rests on them; otherwise they count as missing.
    """

    state: State
    age_days: float | None
    used: bool


@dataclass(frozen=True)
class Reason:
    """One feature's contribution to the raw score, its SHAP value."""

    party: str
    feature: str
    contribution: float


@dataclass(frozen=True)
class Reasons:
    """The largest contributions; with base and rest they add up to the raw score.

    Attributes:
        named: The largest, largest first.
        base: The expected raw score.
        rest: What all other features contribute.
        raw_score: The sum of all: log odds, a raw class score or the number's own scale.
    """

    named: tuple[Reason, ...]
    base: float
    rest: float
    raw_score: float


@dataclass(frozen=True)
class Score:
    """The score of one row, to the bit that of a batch of the same values.

    Attributes:
        version: The one model version that made it.
        mode: Of scoring.
        score: The positive class's probability, the likeliest class's, or a number; None where the
            row is refused.
        decision: The class; None in regression.
        probabilities: By class.
        uncalibrated: The model's own score, where scores are calibrated.
        interval: Of a number, where one is declared.
        partners: By other party; empty in mode ``local``.
        unseen: Own features whose category no training row had: it counts as missing.
        refused: Why there is no score: ``forgotten``, ``old``, ``unknown`` or ``withdrawn``; empty
            if there is.
        reasons: Where they were asked for.
    """

    version: str
    mode: str
    score: float | None
    decision: str | int | None
    probabilities: Mapping[str, float]
    uncalibrated: float | None
    interval: tuple[float, float] | None
    partners: Mapping[str, Partner]
    unseen: tuple[str, ...]
    refused: str
    reasons: Reasons | None

    def document(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)

"""How new rows are scored: the ``scoring`` entry of a federation file."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from opboost_ops.config.cron import Cron
from opboost_ops.config.schema import Record
from opboost_ops.errors import Fault

ScoringMode = Literal["local", "desensitised", "routed"]
Task = Literal["binary", "multiclass", "regression"]


class Scoring(Record):
    """How and when new rows are scored, and so how the held-out rows are evaluated.

    Attributes:
        mode: ``desensitised``: feature holders release randomised domain values of the new rows.
            ``routed``: they answer, for every row, every comparison with a threshold of the model.
            ``local``: the label holder has all columns that the model uses, as in horizontal
            learning, where it is the only mode.
        evaluate: Further modes in which held-out rows are evaluated; all parties must allow each.
        cron: When new rows are scored, in addition to after each new champion.
        cost_ratio: Cost of a missed positive, relative to a false alarm: a row is positive above a
            score of 1 / (1 + cost_ratio); default: 0.5. Two classes.
        calibration: Calibrate scores on the held-out rows; two classes.
        interval: Coverage of the interval beside each score, from the held-out rows (split
            conformal); regression.
        reasons: How many of the features that contribute most are listed with each score.
    """

    mode: ScoringMode = "desensitised"
    evaluate: tuple[ScoringMode, ...] = ()
    cron: Cron | None = None
    cost_ratio: float | None = Field(default=None, gt=0, le=1e6)
    calibration: Literal["isotonic", "platt"] | None = None
    interval: float | None = Field(default=None, ge=0.5, lt=1)
    reasons: int | None = Field(default=None, ge=1, le=50)

    @property
    def modes(self) -> tuple[ScoringMode, ...]:
        """All modes in which a model is evaluated; the one of scoring comes first."""
        return tuple(dict.fromkeys((self.mode, *self.evaluate)))


#: Why a private model has none of it.
_ROWS = (
    "would be read off single rows, exactly, and training.private promises noise for whatever "
    "depends on them"
)


def scoring_faults(scoring: Scoring, task: Task | None, private: bool) -> Iterator[Fault]:
    """Faults of a federation's scores.

    Args:
        scoring: As declared.
        task: What is learnt; None where no label is declared.
        private: Whether ``training.private`` is declared.

    Yields:
        One fault after the other.
    """
    for key, needed, words in (
        ("cost_ratio", "binary", "is for two classes"),
        ("calibration", "binary", "is for two classes"),
        ("interval", "regression", "is for a number"),
    ):
        if getattr(scoring, key) is not None and task not in (needed, None):
            remedy = "leave it out"
            if key == "cost_ratio":
                remedy = "leave it out: the likeliest class is chosen"
            yield Fault(f"scoring.{key}", f"{words}, and the label is {task}", remedy)
    if not private:
        return
    for key in ("calibration", "interval", "reasons"):
        if getattr(scoring, key) is not None:
            yield Fault(f"scoring.{key}", _ROWS, "leave it out")

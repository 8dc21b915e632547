"""What a booster minimises, when it ends, and how its parameters are looked for."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from opboost_ops.config.schema import Record

#: What a booster may minimise; which of them go with which task: `config/training_faults.py`.
ObjectiveName = Literal[
    "binary", "multiclass", "l2", "l1", "huber", "quantile", "poisson", "tweedie"
]

#: By class, or ``balanced``.
ClassWeight = Literal["balanced"] | Mapping[str | int, Annotated[float, Field(gt=0)]]

#: By what trials of tuning are compared; ``loss`` is the objective's own.
TrialMetric = Literal["auc", "accuracy", "r2", "mae", "loss"]


class EarlyStopping(Record):
    """Boosting ends when a part of the training rows, which no tree learns from, gains no more.

    Attributes:
        rounds: After how many rounds without a gain in the objective's own loss.
        share: Of the training rows, which part that is.
    """

    rounds: int = Field(default=20, ge=1, le=1000)
    share: float = Field(default=0.1, gt=0, le=0.5)


class Tuning(Record):
    """Parameters are looked for on released training rows; no trial asks anybody for anything.

    Attributes:
        trials: How many; the first is what the file declares.
        minutes: After how many of them no further trial begins.
        metric: By what trials are compared; auc, or r2 in regression, or ``loss`` where an
            objective other than l2 is declared, when absent.
        folds: How many parts the training rows are cut into; each is predicted by the others.
    """

    trials: int = Field(default=30, ge=1, le=1000)
    minutes: float | None = Field(default=None, gt=0, le=24 * 60)
    metric: TrialMetric | None = None
    folds: int = Field(default=3, ge=2, le=20)

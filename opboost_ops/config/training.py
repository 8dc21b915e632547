"""The entries ``training``, with a model per trainer, and ``scoring``."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    NonNegativeFloat,
    PlainSerializer,
    Tag,
    field_validator,
    model_validator,
)

from opboost_ops.config.schema import Record
from opboost_ops.config.terms import Cron
from opboost_ops.errors import Fault
from opboost_ops.mechanisms.parameters import Epsilon

#: Objectives of the boosters; `config/faults/training.py` lists those of each task.
ObjectiveName = Literal[
    "binary", "multiclass", "l2", "l1", "huber", "quantile", "poisson", "tweedie"
]

#: Denoising of released columns before training.
Denoise = Literal["none", "joint", "auto"]

ScoringMode = Literal["local", "desensitised", "routed"]
Task = Literal["binary", "multiclass", "regression"]

#: Why a differentially private model cannot have such an entry.
_READS_ROWS = (
    "would be computed from single rows, exactly, while training.private promises noise for "
    "everything that depends on them"
)


class AnyTraining(Record):
    """Keys of all trainers.

    Attributes:
        trees: Number of boosting rounds.
        holdout: Share of the rows that evaluate the model, selected by a keyed hash of the ID.
        tolerance: Amount by which a new model's main metric (auc, or r2 in regression) may be worse
            than the best so far on the same held-out rows and still become champion.
    """

    trees: int = Field(default=80, ge=1, le=10_000)
    learning_rate: float = Field(default=0.1, gt=0, le=1)
    depth: int = Field(default=3, ge=1, le=16)
    holdout: float = Field(default=0.2, gt=0, lt=1)
    tolerance: NonNegativeFloat = 0.0


class BoosterTraining(AnyTraining):
    """Further keys of LightGBM and XGBoost.

    Attributes:
        parameters: The booster's own parameters, by name (`config/parameters.py`).
        objective: The loss to minimise; by default the task's own.
        weight_column: Column of the label holder's table with the weight of each training row.
        early_stopping: Number of rounds after which boosting stops without an improvement of the
            objective's loss on a tenth of the training rows, which are set aside. Default: never.
        tuning: Number of trials that search for parameters on released training rows, in three
            folds, compared by auc, r2 or the declared objective's loss; the first trial has the
            declared values. Trials send no requests. Default: none.
    """

    parameters: Mapping[str, Any] = Field(default_factory=dict)
    objective: ObjectiveName | None = None
    weight_column: str | None = None
    early_stopping: int | None = Field(default=None, ge=1, le=1000)
    tuning: int | None = Field(default=None, ge=1, le=1000)

    @property
    def private(self) -> None:
        """None: the model is not differentially private."""


class LightGBMTraining(BoosterTraining):
    """LightGBM, the default trainer.

    Attributes:
        denoise: ``none`` trains on the released values. ``joint`` trains on several samples of
            each row's original values, for models of clear rows. ``auto`` is ``joint`` if the label
            holder has no own columns. Default: ``none``.
    """

    trainer: Literal["lightgbm"] = "lightgbm"
    denoise: Denoise | None = None


class XGBoostTraining(BoosterTraining):
    """XGBoost; only the label holder needs to install the extra."""

    trainer: Literal["xgboost"]

    @property
    def denoise(self) -> None:
        """None: it trains on the released values."""


class _RowIndependentTraining(AnyTraining):
    """Base of differentially private and horizontal training, without row-dependent settings."""

    @property
    def denoise(self) -> None:
        """None: it trains on the released values."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Empty: no other booster's parameters apply."""
        return {}

    @property
    def objective(self) -> None:
        """None: the label's task determines it."""

    @property
    def weight_column(self) -> None:
        """None: all rows count alike."""

    @property
    def early_stopping(self) -> None:
        """None: all trees are grown."""

    @property
    def tuning(self) -> None:
        """None: each trial would be a separate release."""


class DPBoostPrivacy(Record):
    """The privacy parameters of a DPBoost model.

    Attributes:
        epsilon: Loss of one training, for a row added or removed.
        delta: Less than 1 / rows. The model is then (epsilon, delta)-differentially private, by
            Skellam noise on leaf sums; requires random splits. Default: 0, epsilon alone.
        splits: ``random`` draws splits without reading a row, so that all of epsilon is used for
            leaves, and every tree learns from all rows. Default: DPBoost's splits.
        metrics_epsilon: Loss of a training's metrics, for a held-out row. Metrics and gate then use
            noise; default: exact.
    """

    epsilon: Epsilon
    delta: float | None = Field(default=None, ge=0, lt=0.01)
    splits: Literal["random"] | None = None
    metrics_epsilon: Epsilon | None = None

    @field_validator("delta")
    @classmethod
    def _none(cls, delta: float | None) -> float | None:
        return delta or None

    @model_validator(mode="after")
    def _all_rows(self) -> "DPBoostPrivacy":
        if self.delta is not None and self.splits != "random":
            raise ValueError("delta needs splits: random; DPBoost's own splits have epsilon alone")
        return self


class DPBoostTraining(_RowIndependentTraining):
    """DPBoost, a differentially private trainer; only the label holder needs to install the extra.

    Attributes:
        trees: Default: 50; with random splits 20, with a delta 400.
        learning_rate: Default with random splits 0.5, with a delta 0.15.
        depth: Default: 6, with random splits 4; a complete tree has 2^depth leaves. With a delta at
            most 6; small tables get shallower trees, depending on rows, epsilon and delta.
        private: The privacy parameters.
    """

    trainer: Literal["dpboost"]
    trees: int = Field(default=50, ge=1, le=10_000)
    learning_rate: float = Field(default=0.1, gt=0, lt=1)
    depth: int = Field(default=6, ge=1, le=10)
    private: DPBoostPrivacy

    @model_validator(mode="before")
    @classmethod
    def _of_random_splits(cls, data: Any) -> Any:
        private = data.get("private") if isinstance(data, Mapping) else None
        if isinstance(private, Mapping) and private.get("delta"):
            return {"trees": 400, "depth": 6, "learning_rate": 0.15, **data}
        if isinstance(private, Mapping) and private.get("splits") == "random":
            return {"trees": 20, "depth": 4, "learning_rate": 0.5, **data}
        return data


class SumPrivacy(Record):
    """Differentially private noise in all sums of horizontal learning.

    Attributes:
        epsilon: Loss of one training, for a row of any party added or removed.
        delta: Less than 1 / rows of all parties.
        metrics_epsilon: As for DPBoost.
        colluding: kappa, the number of parties, including the active one, that may pool what they
            know or omit their noise; default: 1.
    """

    epsilon: Epsilon
    delta: float = Field(gt=0, lt=0.01)
    metrics_epsilon: Epsilon | None = None
    colluding: int | None = Field(default=None, ge=1)


def _sum_privacy(value: Any) -> Any:
    if value is None:
        raise ValueError("is empty: declare epsilon and delta, or none for exact sums")
    return None if value == "none" else value


#: ``none`` in files, None in code: exact sums must be declared explicitly.
_DeclaredSumPrivacy = Annotated[
    SumPrivacy | None,
    BeforeValidator(_sum_privacy, json_schema_input_type=SumPrivacy | Literal["none"]),
    PlainSerializer(lambda value: "none" if value is None else value.model_dump()),
]


class FederBoostTraining(_RowIndependentTraining):
    """FederBoost, the trainer of horizontal learning.

    Attributes:
        trees: Default with noise: 200.
        depth: Default with noise: 6, less for few rows.
        private: Noise in all sums, or ``none`` for exact ones. Default: epsilon 4, delta 1e-6.
    """

    trainer: Literal["federboost"]
    private: _DeclaredSumPrivacy = SumPrivacy(epsilon=4.0, delta=1e-6)

    @model_validator(mode="before")
    @classmethod
    def _with_noise(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and data.get("private") != "none":
            return {"trees": 200, "depth": 6, **data}
        return data


def _trainer_of(value: Any) -> Any:
    if isinstance(value, Mapping):
        return value.get("trainer", "lightgbm")
    return getattr(value, "trainer", None)


#: Discriminated by trainer, so that a fault is reported once and not per trainer.
Training = Annotated[
    Annotated[LightGBMTraining, Tag("lightgbm")]
    | Annotated[XGBoostTraining, Tag("xgboost")]
    | Annotated[DPBoostTraining, Tag("dpboost")]
    | Annotated[FederBoostTraining, Tag("federboost")],
    Discriminator(_trainer_of),
]

#: The models of ``training``, by trainer.
TRAINERS: Mapping[str, type[AnyTraining]] = {
    "lightgbm": LightGBMTraining,
    "xgboost": XGBoostTraining,
    "dpboost": DPBoostTraining,
    "federboost": FederBoostTraining,
}


class Scoring(Record):
    """Scoring of new rows, and thereby the evaluation of held-out rows.

    Attributes:
        mode: ``desensitised``: feature holders release randomised domain values of the new rows.
            ``routed``: they answer, for every row, every comparison with a threshold of the model.
            ``local``: the label holder has all columns that the model uses. Horizontal learning
            has no other mode.
        evaluate: Further modes in which held-out rows are evaluated; all parties must allow each.
        cron: When new rows are scored, in addition to after each new champion.
        cost_ratio: Cost of a missed positive, relative to a false alarm: a row is positive above a
            score of 1 / (1 + cost_ratio); default: 0.5. Two classes.
        calibration: Calibration of scores on the held-out rows; two classes.
        interval: Coverage of the prediction interval of each score, from the held-out rows (split
            conformal); regression.
        reasons: Number of features with the greatest contributions listed with each score.
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
        """All modes in which a model is evaluated, with the scoring mode first."""
        return tuple(dict.fromkeys((self.mode, *self.evaluate)))


def scoring_faults(scoring: Scoring, task: Task | None, private: bool) -> Iterator[Fault]:
    """Yield the faults of ``scoring``.

    Args:
        scoring: The declared entry.
        task: Task of the label; None without one.
        private: True if ``training.private`` is declared.
    """
    for key, needed, words in (
        ("cost_ratio", "binary", "is for two classes"),
        ("calibration", "binary", "is for two classes"),
        ("interval", "regression", "is for a number"),
    ):
        if getattr(scoring, key) is not None and task not in (needed, None):
            remedy = "leave it out"
            if key == "cost_ratio":
                remedy = "leave it out: the most likely class is chosen"
            yield Fault(f"scoring.{key}", f"{words}, and the label is {task}", remedy)
    if not private:
        return
    for key in ("calibration", "interval", "reasons"):
        if getattr(scoring, key) is not None:
            yield Fault(f"scoring.{key}", _READS_ROWS, "leave it out")

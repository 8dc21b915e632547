"""``federation.yaml``: the public description on which all parties agree."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from opboost_ops.config.alignment import Alignment, Members
from opboost_ops.config.feature import DomainRange, Feature
from opboost_ops.config.pilot import Pilot
from opboost_ops.config.public_keys import PublicKeys
from opboost_ops.config.schema import FeatureName, Name, Record
from opboost_ops.config.scoring import Scoring as Scoring
from opboost_ops.config.scoring import ScoringMode as ScoringMode
from opboost_ops.config.tuning import ClassWeight, EarlyStopping, ObjectiveName, Tuning
from opboost_ops.domain import MOST_SEARCHED, MOST_VALUES

Role = Literal["label_holder", "feature_holder"]
IdType = Literal["string", "integer"]
LearningTask = Literal["binary", "multiclass", "regression"]

#: What a run is for.
Purpose = Literal["train", "score"]


class IdColumn(Record):
    """The column that names a person in every party's table."""

    column: str
    type: IdType


class Label(Record):
    """The target: the label holder's column, or in horizontal learning everybody's.

    Attributes:
        column: Its column.
        task: What is learnt.
        classes: Declared class values in their order (for ``binary`` the second is the positive
            one); read off the label column when absent, which horizontal learning does not do.
        bounds: Public bounds of a number, in horizontal learning and for DPBoost; values outside
            are clipped.
    """

    column: str
    task: LearningTask
    classes: tuple[str | int, ...] | None = None
    bounds: tuple[float, float] | None = None


class Party(PublicKeys):
    """One organisation, as the others see it; its keys are those of `PublicKeys`.

    Attributes:
        role: What it does.
        queue: Airflow queue of its workers.
        pool: Airflow pool of its tasks.
        label: The label holder's target.
        features: Its columns.
        shards: Its table is several files, and each is preprocessed and desensitised (feature
            holders), or encoded (horizontal learning), by a task of its own.
        pilot: What may follow, where its releases are a pilot.
    """

    role: Role
    queue: str = "default"
    pool: str = "default_pool"
    label: Label | None = None
    features: Mapping[FeatureName, Feature] = Field(default_factory=dict)
    shards: bool = False
    pilot: Pilot | None = None


class HoldoutColumn(Record):
    """The held-out rows are those where a boolean column of the label holder is true."""

    column: str


#: What may be done about others' noise before training.
Denoise = Literal["none", "joint", "auto"]


class PrivateTraining(Record):
    """How a training makes the model itself differentially private: DPBoost's, or noisy sums.

    Attributes:
        epsilon: What one training costs a row that is added or removed: of the label holder's, or
            in horizontal learning of any party's.
        trees_per_ensemble: The paper's T_e: the trees of an ensemble hold different rows, and
            ensembles share epsilon. DPBoost.
        regularisation: The paper's lambda. DPBoost.
        splits: ``random`` draws splits without a look at any row, so that all of epsilon goes to
            leaves, and every tree learns from all rows. DPBoost's way when absent.
        metrics_epsilon: What the metrics of one training cost a held-out row: they get noise, and
            so does what the champion's gate goes by. Without it they are exact.
        delta: Below 1 / rows of all parties; horizontal.
        remain: t, how many parties must stay, whose noise is in every sum, all of them when
            absent; horizontal.
        patience_minutes: How long the active party waits for a party before it goes on without it,
            a third of ``wait_minutes`` when absent; horizontal, where parties may drop out.
        colluding: kappa, how many of them may pool what they know, the active one among them, or
            leave their noise out; 1 when absent; horizontal.
        columns: How many columns a tree looks at, in turn, 2 when absent; horizontal.
    """

    epsilon: float = Field(gt=0, le=1000)
    trees_per_ensemble: int = Field(default=50, ge=1, le=10_000)
    regularisation: float = Field(default=0.1, gt=0, le=1000)
    splits: Literal["random"] | None = None
    metrics_epsilon: float | None = Field(default=None, gt=0, le=1000)
    delta: float | None = Field(default=None, gt=0, lt=0.01)
    remain: int | None = Field(default=None, ge=1)
    patience_minutes: float | None = Field(default=None, gt=0)
    colluding: int | None = Field(default=None, ge=1)
    columns: int | None = Field(default=None, ge=1)


class Training(Record):
    """How the booster is trained.

    Attributes:
        trainer: Which booster. XGBoost and DPBoost are extras, needed by the label holder alone.
            Horizontal learning has its own, ``federboost``, with the entries below that vertical
            does not have.
        private: What a private model costs: DPBoost's (``trees`` are 50 and ``depth`` is 6 there
            when absent; with random splits 20 and 4, and ``learning_rate`` is 0.5), or in
            horizontal learning that of noisy sums.
        method: How XGBoost looks for splits: over bins (``hist``, when absent), one for each
            rank, or over all values (``exact``), which knows no nominal features.
        engine: Where the label holder trains: in one process, or on a Dask cluster, for tables that
            are too large for that (an extra, and LightGBM alone).
        denoise: What the label holder does about others' noise before it trains. ``joint`` samples
            the original values of all of a row's released cells together, several times over
            (LightGBM in one process), for models of clear rows. ``auto`` is ``joint`` where that
            was not found to be worse than ``none``: see `Federation.denoising`.
        parameters: The booster's own, by their names there (`config/parameters.py`).
        objective: What it minimises; the task's own when absent.
        weight_column: A column of the label holder's table: how much each training row counts.
        class_weight: How much each class counts, by class; ``balanced`` for as much as another.
        early_stopping: Whether, and when, boosting ends before all trees are there.
        tuning: Whether, and for how long, parameters are looked for.
        tolerance: By how much a new model's main metric (auc, or r2 in regression) may be worse
            than the champion's on the held-out rows, and yet become champion.
        active: The party that opens the runs and learns the sums; horizontal.
        buckets: At most how many buckets a feature is cut into, 16 when absent; horizontal.
        lambda_l2: What is added to each sum of hessians, 1 when absent; horizontal.
        least_node: Fewest rows, of all parties together, in a node, 20 when absent; horizontal.
        wait_minutes: How long a party waits for another in a round, 15 when absent; horizontal.
    """

    trainer: Literal["lightgbm", "xgboost", "dpboost", "federboost"] = "lightgbm"
    private: PrivateTraining | None = None
    method: Literal["hist", "exact"] | None = None
    engine: Literal["local", "dask"] = "local"
    trees: int = Field(default=80, ge=1, le=10_000)
    learning_rate: float = Field(default=0.1, gt=0, le=1)
    depth: int = Field(default=3, ge=1, le=16)
    holdout: Annotated[float, Field(gt=0, lt=1)] | HoldoutColumn = 0.2
    seed: int = Field(default=0, ge=0, lt=2**31)
    denoise: Denoise | None = None
    parameters: Mapping[str, Any] = Field(default_factory=dict)
    objective: ObjectiveName | None = None
    weight_column: str | None = None
    class_weight: ClassWeight | None = None
    early_stopping: EarlyStopping | None = None
    tuning: Tuning | None = None
    tolerance: float = Field(default=0.01, ge=0)
    active: Name | None = None
    buckets: int | None = Field(default=None, ge=2, le=1024)
    lambda_l2: float | None = Field(default=None, ge=0)
    least_node: int | None = Field(default=None, ge=1)
    wait_minutes: float | None = Field(default=None, gt=0, le=24 * 60)

    @model_validator(mode="before")
    @classmethod
    def _paper_defaults(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and data.get("trainer") == "dpboost":
            private = data.get("private")
            if isinstance(private, Mapping) and private.get("splits") == "random":
                return {"trees": 20, "depth": 4, "learning_rate": 0.5, **data}
            return {"trees": 50, "depth": 6, **data}
        return data


class Schedule(Record):
    """When the training DAG runs by itself, and for how long at most.

    Attributes:
        cron: At these times.
        on_tables: When all parties' tables have changed since the last run: how often each party
            looks at its own, as a cron expression. It looks at its table of new rows, too: when
            all of these have changed, they are scored.
        catch_up: Whether a time that was missed, because nothing was running, is made up for once,
            as soon as something is. It does not reach back before the federation was there.
        timeout_hours: After how many hours a run, or a task of it, is ended as failed.
    """

    cron: str | None = None
    on_tables: str | None = None
    catch_up: bool = False
    timeout_hours: float = Field(default=12, gt=0, le=24 * 7)


class Federation(Record):
    """The whole of ``federation.yaml``.

    Attributes:
        version: Of this format.
        name: The federation's.
        learning: ``vertical``: other columns of the same people. ``horizontal``: the same columns
            of other people, each party with its own label.
        id: The column that names a person.
        alignment: Whose rows the label holder can open; vertical.
        domain: Bounds of the integers that features are mapped to.
        label: Every party's target; horizontal.
        features: Every party's columns; horizontal.
        parties: By name.
        training: How the booster is trained.
        scoring: How new rows are scored.
        schedule: When runs begin.
    """

    version: Literal[1]
    name: Name
    learning: Literal["vertical", "horizontal"] = "vertical"
    id: IdColumn
    alignment: Alignment = Members()
    domain: DomainRange
    label: Label | None = None
    features: Mapping[FeatureName, Feature] = Field(default_factory=dict)
    parties: Mapping[Name, Party]
    training: Training = Training()
    scoring: Scoring = Scoring()
    schedule: Schedule = Schedule()

    @property
    def without_guarantee(self) -> tuple[str, ...]:
        """Features whose edges were read off a private table, as ``party.feature``."""
        return tuple(
            f"{party}.{name}"
            for party, spec in self.parties.items()
            for name, feature in spec.features.items()
            if "private_table" in feature.edge_sources
        )

    @property
    def most_values(self) -> int:
        """Most values that the domain may have: horizontal learning has no channel to build."""
        return MOST_SEARCHED if self.learning == "horizontal" else MOST_VALUES

    @property
    def denoising(self) -> Literal["none", "joint"]:
        """What is done about others' noise before training; ``auto`` is resolved.

        ``auto`` is ``joint`` where the label holder has no columns of its own, the booster is
        LightGBM in one process, and scoring meets clear rows; otherwise ``none``.
        """
        training = self.training
        if training.denoise != "auto":
            return training.denoise or "none"
        able = (training.trainer, training.engine) == ("lightgbm", "local")
        own = self.learning == "horizontal" or bool(self.parties[self.label_holder].features)
        return "joint" if able and not own and self.scoring.mode != "desensitised" else "none"

    @property
    def label_holder(self) -> str:
        """Name of the one party that holds the labels; in horizontal learning the active one."""
        if self.learning == "horizontal" and self.training.active is not None:
            return self.training.active
        return next(n for n, p in self.parties.items() if p.role == "label_holder")

    @property
    def feature_holders(self) -> tuple[str, ...]:
        """Names of the feature holders, in the file's order."""
        return tuple(n for n, p in self.parties.items() if p.role == "feature_holder")

    def dealt(self) -> "Federation":
        """What is declared once for all parties of horizontal learning, at each of them."""
        if self.learning != "horizontal":
            return self
        common = {"label": self.label, "features": self.features}
        parties = {name: spec.model_copy(update=common) for name, spec in self.parties.items()}
        scoring = self.scoring.model_copy(update={"mode": "local"})
        return self.model_copy(update={"parties": parties, "scoring": scoring})

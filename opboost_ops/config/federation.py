"""``federation.yaml``: the public description on which all parties agree."""

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import Field, model_validator

from opboost_ops.config.schema import FeatureName, Name, PublicKey, Record
from opboost_ops.domain import Domain, DomainMap
from opboost_ops.mechanisms import BucketResponse, Mechanism, MissingBit

Role = Literal["label_holder", "feature_holder"]
IdType = Literal["string", "integer"]
LearningTask = Literal["binary", "multiclass", "regression"]
ScoringMode = Literal["local", "desensitised", "routed"]


class IdColumn(Record):
    """The column that names a person in every party's table."""

    column: str
    type: IdType


class DomainRange(Record):
    """Bounds L and R of the integers on which every protected feature is released."""

    lower: int
    upper: int

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.lower >= self.upper:
            raise ValueError("lower must be less than upper")
        return self

    def to_domain(self) -> Domain:
        """The domain [lower, upper]."""
        return Domain(self.lower, self.upper)


class Edges(Record):
    """Declared inner edges of a feature's cells, strictly increasing.

    Attributes:
        edges: The edges.
        source: Where they come from. Edges read off the private table carry no guarantee (one
            moved value can move many rows' cells): only experiments may use them, and everything
            that is made with them says so.
    """

    edges: tuple[float, ...] = Field(min_length=1)
    source: Literal["declared", "public_sample", "private_table"] = "declared"

    @model_validator(mode="after")
    def _increasing(self) -> Self:
        if any(a >= b for a, b in zip(self.edges, self.edges[1:], strict=False)):
            raise ValueError("edges must be strictly increasing")
        return self


class Fill(Record):
    """Missing values are replaced by this declared value before anything else.

    Attributes:
        fill: The value, or for a feature with categories one of them.
        bit: Whether a value was missing, released as a column of its own (feature holders).
    """

    fill: float | str
    bit: MissingBit | None = None


class Feature(Record):
    """One column of one party.

    Attributes:
        uuid: Immutable name of the column: noise and the ledger go by it, so a rename is free.
        type: ``numeric``, ``ordinal`` (``categories`` give the order) or ``nominal``.
        bounds: Public lower and upper bound of a protected numeric feature, in its own unit; of
            the label holder's, too, where DPBoost trains.
        scale: How [bounds] are laid on the domain.
        categories: Of an ordinal feature in their order, lowest first; of a feature holder's
            nominal feature in any order, and of the label holder's where DPBoost trains.
        missing: ``forbid``, a declared fill, or (label holder only) ``keep``.
        mechanism: How the feature is randomised; required of feature holders.
    """

    uuid: UUID
    type: Literal["numeric", "ordinal", "nominal"] = "numeric"
    bounds: tuple[float, float] | None = None
    scale: Literal["linear", "log1p"] | Edges = "linear"
    categories: tuple[str, ...] | None = None
    missing: Literal["forbid", "keep"] | Fill = "forbid"
    mechanism: Mechanism | None = None

    @property
    def edge_sources(self) -> frozenset[str]:
        """Where the edges of its cells and of its buckets come from; equal parts are declared."""
        scale = self.scale.source if isinstance(self.scale, Edges) else "declared"
        buckets = self.mechanism.source if isinstance(self.mechanism, BucketResponse) else scale
        return frozenset({scale, buckets})

    @property
    def guarantee(self) -> str:
        """What holds for a cell, in words, where that hangs on where edges come from."""
        if "private_table" in self.edge_sources:
            return "no guarantee: edges read off private data"
        if not isinstance(self.mechanism, BucketResponse):
            return ""
        sampled = "public_sample" in self.edge_sources
        edges = "edges of a public sample" if sampled else "declared edges"
        return f"element-level local DP, per cell, by {edges}"

    def domain_map(self, domain: Domain) -> DomainMap:
        """The public map from this feature's values to the domain.

        Args:
            domain: The federation's domain.

        Returns:
            The map; its input is the raw number, or the category's position for ordinals.
        """
        if self.type == "ordinal":
            assert self.categories is not None
            return DomainMap(domain, (0.0, float(len(self.categories) - 1)), "linear")
        assert self.bounds is not None
        edges = self.scale.edges if isinstance(self.scale, Edges) else None
        scale = "edges" if isinstance(self.scale, Edges) else self.scale
        return DomainMap(domain, self.bounds, scale, edges)


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


class Party(Record):
    """One organisation, as the others see it.

    Attributes:
        role: What it does.
        queue: Airflow queue of its workers.
        pool: Airflow pool of its tasks.
        signing_key: Its Ed25519 public key.
        signing_key_expires: The last day on which others accept what that key signed.
        encryption_key: Its X25519 public key: what is addressed to it is encrypted. Without one
            whoever reads the store reads all of it.
        label: The label holder's target.
        features: Its columns.
        shards: Its table is several files, and each is preprocessed and desensitised by a task of
            its own (feature holders).
    """

    role: Role
    queue: str = "default"
    pool: str = "default_pool"
    signing_key: PublicKey
    signing_key_expires: date | None = None
    encryption_key: PublicKey | None = None
    label: Label | None = None
    features: Mapping[FeatureName, Feature] = Field(default_factory=dict)
    shards: bool = False


class HoldoutColumn(Record):
    """The held-out rows are those where a boolean column of the label holder is true."""

    column: str


class PrivateTraining(Record):
    """How DPBoost makes the model itself differentially private.

    Attributes:
        epsilon: What one training costs a row of the label holder's that is added or removed.
        trees_per_ensemble: The paper's T_e: the trees of an ensemble hold different rows, and
            ensembles share epsilon.
        regularisation: The paper's lambda.
        metrics_epsilon: What the metrics of one training cost a held-out row: they get noise, and
            so does what the champion's gate goes by. Without it they are exact.
    """

    epsilon: float = Field(gt=0, le=1000)
    trees_per_ensemble: int = Field(default=50, ge=1, le=10_000)
    regularisation: float = Field(default=0.1, gt=0, le=1000)
    metrics_epsilon: float | None = Field(default=None, gt=0, le=1000)


class Training(Record):
    """How the booster is trained.

    Attributes:
        trainer: Which booster. XGBoost and DPBoost are extras, needed by the label holder alone.
            Horizontal learning has its own, ``federboost``, with the entries below that vertical
            does not have.
        private: DPBoost's own entries; ``trees`` are 50 and ``depth`` is 6 there when absent.
        method: How XGBoost looks for splits: over bins (``hist``, when absent), one for each
            rank, or over all values (``exact``), which knows no nominal features.
        engine: Where the label holder trains: in one process, or on a Dask cluster, for tables that
            are too large for that (an extra, and LightGBM alone).
        redraw: The label holder draws the values behind others' releases back before it trains,
            by their known channels: for models of clear rows, so not for desensitised scoring.
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
    redraw: bool = False
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
            return {"trees": 50, "depth": 6, **data}
        return data


class Scoring(Record):
    """How and when new rows are scored, and so how the held-out rows are evaluated.

    Attributes:
        mode: ``desensitised``: feature holders release randomised domain values of the new rows.
            ``routed``: they answer, for every row, every comparison with a threshold of the
            model. ``local``: the label holder holds all columns that the model uses, as every
            party does in horizontal learning, which knows no other mode.
        evaluate: Other modes in which a model's held-out rows are evaluated too, so that one
            can choose; each must be allowed by all parties as the scoring mode must.
        cron: At these times new rows are scored, besides after every new champion.
    """

    mode: ScoringMode = "desensitised"
    evaluate: tuple[ScoringMode, ...] = ()
    cron: str | None = None

    @property
    def modes(self) -> tuple[ScoringMode, ...]:
        """All modes in which a model is evaluated; the one of scoring comes first."""
        return tuple(dict.fromkeys((self.mode, *self.evaluate)))


class Schedule(Record):
    """When the training DAG runs by itself, and for how long at most.

    Attributes:
        cron: At these times.
        on_tables: When all parties' tables have changed since the last run: how often each party
            looks at its own, as a cron expression. It looks at its table of new rows, too: when
            all of these have changed, they are scored.
        timeout_hours: After how many hours a run, or a task of it, is ended as failed.
    """

    cron: str | None = None
    on_tables: str | None = None
    timeout_hours: float = Field(default=12, gt=0, le=24 * 7)


class Federation(Record):
    """The whole of ``federation.yaml``.

    Attributes:
        version: Of this format.
        name: The federation's.
        learning: ``vertical``: other columns of the same people. ``horizontal``: the same columns
            of other people, each party with its own label.
        id: The column that names a person.
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

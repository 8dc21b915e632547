"""``federation.yaml``, the public declaration that all parties agree on, and offers to it."""

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal, Self, get_args
from uuid import UUID

from pydantic import ConfigDict, Field, field_validator, model_validator

from opboost_ops.config.feature import DomainRange, Feature, canonical
from opboost_ops.config.public_keys import PublicKeys
from opboost_ops.config.schema import FeatureName, Name, PublicKey, Record
from opboost_ops.config.terms import Cron, Terms
from opboost_ops.config.training import LightGBMTraining, Training
from opboost_ops.config.training import Scoring as Scoring
from opboost_ops.config.training import ScoringMode as ScoringMode
from opboost_ops.domain import MAX_BISECTED_VALUES, MAX_VALUES, Domain

#: In vertical learning the holder of the label or of features. In horizontal learning ``active``
#: opens the runs and learns the sums, all others are ``passive``.
Role = Literal["label_holder", "feature_holder", "active", "passive"]

IdType = Literal["string", "integer"]

#: Normalisations of an ID's texts, in the order in which they are applied.
Normalisation = Literal["strip", "nfc", "casefold", "digits"]

#: Roles of the party that opens the runs.
_OPENS = ("label_holder", "active")

#: All normalisations, in order.
RULES: tuple[Normalisation, ...] = get_args(Normalisation)

LearningTask = Literal["binary", "multiclass", "regression"]

#: Purpose of a run.
Purpose = Literal["train", "score"]

#: Columns of a file of scores, besides the ID's.
_SCORE_COLUMNS = frozenset(
    [
        "score",
        "class",
        "coverage",
        "uncalibrated",
        "low",
        "high",
        "raw_score",
        "reasons_base",
        "reasons_rest",
        "model_version",
    ]
)

#: Queue names must fit into a worker's comma-separated list and a broker's access rules.
QueueName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$")]


class Alignment(Record):
    """The label holder's rows that are used for training and scoring.

    Attributes:
        overlap: ``common``: rows of people that all feature holders have. ``left``: all rows (a
            left join), with missing values if a feature holder does not have the person.
    """

    overlap: Literal["common", "left"] = "common"


class IdColumn(Record):
    """The ID of a person in every party's table: one or several columns.

    Attributes:
        column: The ID's name; default for several `columns`: ``id``.
        columns: Two or more columns that form the ID, in order.
        normalise: Rules for the texts of each column, applied in this order: ``strip``, ``nfc``,
            ``casefold``, ``digits``.
        type: Type of the ID's values.
    """

    model_config = ConfigDict(json_schema_extra=lambda schema: schema["required"].remove("column"))

    column: str
    columns: tuple[str, ...] = ()
    normalise: tuple[Normalisation, ...] = ()
    type: IdType

    @property
    def is_made(self) -> bool:
        """True if it is derived from columns, and not used as is."""
        return bool(self.columns or self.normalise)

    @property
    def parts(self) -> tuple[str, ...]:
        """The declared names of the columns that it is read from."""
        return self.columns or (self.column,)

    @model_validator(mode="before")
    @classmethod
    def _named(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and data.get("columns") and "column" not in data:
            return {**data, "column": "id"}
        return data

    @field_validator("normalise")
    @classmethod
    def _in_order(cls, rules: tuple[Normalisation, ...]) -> tuple[Normalisation, ...]:
        """Sort the rules, so that agreements can compare them."""
        return tuple(rule for rule in RULES if rule in rules)

    @model_validator(mode="after")
    def _fits(self) -> "IdColumn":
        if self.columns and len(set(self.columns)) < max(2, len(self.columns)):
            raise ValueError("columns needs at least two different columns; for one use `column`")
        if self.is_made and self.type != "string":
            raise ValueError("an ID of several columns, or normalised, has type: string")
        return self

    @field_validator("column")
    @classmethod
    def _no_column_of_scores(cls, column: str) -> str:
        """Reject names that would clash with the columns of a file of scores."""
        if column in _SCORE_COLUMNS or column.startswith(("probability_", "reason_")):
            raise ValueError(
                f"{column} is the name of a column of scores; declare another name for the ID, "
                "and name the raw column in each policy.yaml by id_column"
            )
        return column


class Label(Record):
    """The target: the label holder's column, or in horizontal learning that of all parties.

    Attributes:
        column: The label's column.
        task: The prediction: one of two classes, one of several, or a number.
        classes: Class values in order (for ``binary`` the second is positive). Default: read from
            the label column, except in horizontal learning.
        bounds: Public bounds of a number, in horizontal learning and for DPBoost; values outside
            are clipped.
    """

    column: str
    task: LearningTask
    classes: tuple[str | int, ...] | None = None
    bounds: tuple[float, float] | None = None

    @model_validator(mode="after")
    def _classes_apart(self) -> Self:
        forms: dict[str, str | int] = {}
        for name in self.classes or ():
            other = forms.setdefault(canonical(str(name)), name)
            if other != name:
                raise ValueError(f"a table cannot tell {other} and {name} apart: keep one")
        return self


class Party(PublicKeys):
    """An organisation as seen by the others; its keys are those of `PublicKeys`.

    Attributes:
        role: The party's role in a run.
        queue: Airflow queue of its workers.
        label: The label holder's target; in horizontal learning the active party's, for all.
        features: Its columns; in horizontal learning the active party's, for all.
    """

    role: Role
    queue: QueueName = "default"
    label: Label | None = None
    features: Mapping[FeatureName, Feature] = Field(default_factory=dict)


class Schedule(Record):
    """When the training DAG runs, and its time limit.

    Attributes:
        cron: When runs start, as a cron expression.
        on_tables: How often each party checks its tables, as a cron expression. When all tables
            have changed since the last run, a run starts; when all tables of new rows have, they
            are scored.
        timeout_hours: Hours after which a run fails. A task fails after 95 % of it, and a party of
            horizontal learning waits for another one at most 1/48 of it per round.
    """

    cron: Cron | None = None
    on_tables: Cron | None = None
    timeout_hours: float = Field(default=12, gt=0, le=24 * 7)


class Federation(Record):
    """The content of ``federation.yaml``.

    Attributes:
        version: Version of this format.
        name: Name of the federation.
        uuid: Permanent name of the federation, drawn by `opboost federate`. A hash of a person's
            ID under it selects the held-out people.
        terms: Purpose, end and frequency of runs, and the receivers' retention period.
        learning: ``vertical``: columns of the same people. ``horizontal``: the same columns
            of different people, each party with its own label.
        id: The ID of a person.
        alignment: The label holder's rows that are used; vertical.
        domain: Bounds of the integers to which features without their own domain are mapped.
        parties: The parties, by name.
        training: How the booster is trained.
        scoring: How new rows are scored.
        schedule: When runs begin.
    """

    version: Literal[1]
    name: Name
    uuid: UUID
    terms: Terms
    learning: Literal["vertical", "horizontal"] = "vertical"
    id: IdColumn
    alignment: Alignment = Alignment()
    domain: DomainRange
    parties: Mapping[Name, Party]
    training: Training = LightGBMTraining()
    scoring: Scoring = Scoring()
    schedule: Schedule = Schedule()

    @model_validator(mode="before")
    @classmethod
    def _trainer_of_learning(cls, data: Any) -> Any:
        """Set the only trainer of horizontal learning, which need not be declared."""
        if isinstance(data, Mapping) and data.get("learning") == "horizontal":
            training = data.get("training", {})
            if isinstance(training, Mapping):
                return {**data, "training": {"trainer": "federboost", **training}}
        return data

    @property
    def max_values(self) -> int:
        """Maximum size of a domain; larger in horizontal learning, which computes no channel."""
        return MAX_BISECTED_VALUES if self.learning == "horizontal" else MAX_VALUES

    @property
    def domains(self) -> dict[str, Domain]:
        """All declared domains, by their place in the file."""
        domains = {"domain": self.domain.to_domain()}
        for party, spec in self.parties.items():
            for name, feature in spec.features.items():
                if feature.domain is not None:
                    domains[f"parties.{party}.features.{name}.domain"] = feature.domain.to_domain()
        return domains

    @property
    def denoising(self) -> Literal["none", "joint"]:
        """The denoising of released columns before training, with ``auto`` resolved.

        ``auto`` is ``joint`` if the label holder has no own columns, the booster is LightGBM, and
        clear rows are scored; otherwise ``none``.
        """
        training = self.training
        if training.denoise != "auto":
            return training.denoise or "none"
        own = any(p.features for p in self.parties.values() if p.role == "label_holder")
        return "joint" if self.scoring.mode != "desensitised" and not own else "none"

    @property
    def trains_by_blocks(self) -> bool:
        """True if the label holder can train without all rows in one process's memory.

        This holds for LightGBM, unless early stopping, tuning or joint denoising select rows.
        """
        training = self.training
        return (
            isinstance(training, LightGBMTraining)
            and training.early_stopping is None
            and training.tuning is None
            and self.denoising != "joint"
        )

    @property
    def has_shares(self) -> bool:
        """True if a row can be opened only if several feature holders all have the person."""
        return not self.keeps_all and len(self.feature_holders) > 1

    @property
    def keeps_all(self) -> bool:
        """True if all rows of the label holder are used, matched or not."""
        return self.alignment.overlap == "left"

    @property
    def label_holder(self) -> str:
        """Name of the party that holds the labels; in horizontal learning the active party."""
        return next(n for n, p in self.parties.items() if p.role in _OPENS)

    @property
    def label(self) -> Label | None:
        """The target of the model; None if not declared."""
        return next((p.label for p in self.parties.values() if p.role in _OPENS), None)

    @property
    def shared_features(self) -> Mapping[str, Feature]:
        """The common columns of horizontal learning."""
        return self.parties[self.label_holder].features

    @property
    def feature_holders(self) -> tuple[str, ...]:
        """Names of the feature holders, in the file's order."""
        return tuple(n for n, p in self.parties.items() if p.role == "feature_holder")

    def with_shared_features(self) -> "Federation":
        """Return a copy in which each horizontal party has the common label and features."""
        if self.learning != "horizontal":
            return self
        common = {"label": self.label, "features": self.shared_features}
        parties = {name: spec.model_copy(update=common) for name, spec in self.parties.items()}
        scoring = self.scoring.model_copy(update={"mode": "local"})
        return self.model_copy(update={"parties": parties, "scoring": scoring})


class OfferedId(Record):
    """The ID columns of the party's own table.

    Attributes:
        column: A single column; the federation file uses the label holder's name.
        columns: Several columns together; the federation file uses the label holder's names.
        types: Types that fit its values.
    """

    column: str = "id"
    columns: tuple[str, ...] = ()
    types: tuple[IdType, ...] = Field(min_length=1)

    def entry(self, common: Collection[IdType]) -> dict[str, Any]:
        """Return the federation file's entry; an ID of several columns gets all rules.

        Args:
            common: Types that fit all parties' values.
        """
        if self.columns:
            return {"columns": list(self.columns), "normalise": list(RULES), "type": "string"}
        return {"column": self.column, "type": min(common)}


class Offer(Record):
    """A party's offer: keys, columns, types, bounds and mechanisms, but no data.

    Attributes:
        version: Version of this format.
        federation: Name of the federation that it is for.
        party: Name of the party.
        id: The ID of a person.
        signing_key: The party's Ed25519 public key.
        encryption_key: The party's X25519 public key.
        label: The target, in the label holder's offer.
        features: The columns, as copied into the federation file.
    """

    version: Literal[1]
    federation: Name
    party: Name
    id: OfferedId
    signing_key: PublicKey
    encryption_key: PublicKey
    label: Label | None = None
    features: Mapping[FeatureName, Feature] = Field(default_factory=dict)

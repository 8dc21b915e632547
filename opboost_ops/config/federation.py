"""``federation.yaml``: the public description on which all parties agree, and offers to it."""

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

#: In vertical learning a holder of the label or of features; in horizontal learning the party that
#: opens the runs and learns the sums, or one of the others.
Role = Literal["label_holder", "feature_holder", "active", "passive"]

IdType = Literal["string", "integer"]

#: What may be done to an ID's texts, in the order in which it is done.
Normalisation = Literal["strip", "nfc", "casefold", "digits"]

#: Roles of the party that opens the runs.
_OPENS = ("label_holder", "active")

#: All normalisations, in that order.
RULES: tuple[Normalisation, ...] = get_args(Normalisation)

LearningTask = Literal["binary", "multiclass", "regression"]

#: What a run is for.
Purpose = Literal["train", "score"]

#: Columns of a file of scores, beside the ID's.
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

#: Workers name their queues in lists with commas, and a broker's rights name them one by one.
QueueName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$")]


class Alignment(Record):
    """Which rows of the label holder are trained on and scored.

    Attributes:
        overlap: ``common``: those of people that all feature holders have. ``left``: all (a left
        join), with missing values where a feature holder lacks the person.
    """

    overlap: Literal["common", "left"] = "common"


class IdColumn(Record):
    """The ID of a person in every party's table: one column, or several.

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
        """True if it is derived from columns, and not taken as it is."""
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
        """One recipe is written in one way: agreements compare it."""
        return tuple(rule for rule in RULES if rule in rules)

    @model_validator(mode="after")
    def _fits(self) -> "IdColumn":
        if self.columns and len(set(self.columns)) < max(2, len(self.columns)):
            raise ValueError("columns needs two different columns or more; for one use `column`")
        if self.is_made and self.type != "string":
            raise ValueError("an ID of several columns, or normalised, has type: string")
        return self

    @field_validator("column")
    @classmethod
    def _no_column_of_scores(cls, column: str) -> str:
        """Scores have the ID beside columns of their own."""
        if column in _SCORE_COLUMNS or column.startswith(("probability_", "reason_")):
            raise ValueError(
                f"{column} is the name of a column of scores; give the ID another declared name, "
                "and name the raw column in each policy.yaml by id_column"
            )
        return column


class Label(Record):
    """The target: the label holder's column, or in horizontal learning everybody's.

    Attributes:
        column: The label's column.
        task: What the model predicts: one of two classes, one of several, or a number.
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
                raise ValueError(f"the classes {other} and {name} are one in a table: keep one")
        return self


class Party(PublicKeys):
    """One organisation, as the others see it; its keys are those of `PublicKeys`.

    Attributes:
        role: What the party does in a run.
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
        timeout_hours: Hours after which a run fails; a task fails after 95 % of it, and a party of
            horizontal learning waits for another 1/48 of it in a round.
    """

    cron: Cron | None = None
    on_tables: Cron | None = None
    timeout_hours: float = Field(default=12, gt=0, le=24 * 7)


class Federation(Record):
    """The whole of ``federation.yaml``.

    Attributes:
        version: Version of this format.
        name: Name of the federation.
        uuid: Permanent name of the federation; `opboost federate` draws it. A hash of a person's
            ID under it decides who is held out.
        terms: What runs are for, until when, how often, and how long receivers keep what they get.
        learning: ``vertical``: columns of the same people. ``horizontal``: the same columns
            of different people, each party with its own label.
        id: The ID of a person.
        alignment: Which rows of the label holder are used; vertical.
        domain: Bounds of the integers that features without a domain of their own are mapped to.
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
        """Horizontal learning has one trainer, which need not be named."""
        if isinstance(data, Mapping) and data.get("learning") == "horizontal":
            training = data.get("training", {})
            if isinstance(training, Mapping):
                return {**data, "training": {"trainer": "federboost", **training}}
        return data

    @property
    def max_values(self) -> int:
        """Most values that the domain may have: horizontal learning has no channel to build."""
        return MAX_BISECTED_VALUES if self.learning == "horizontal" else MAX_VALUES

    @property
    def domains(self) -> dict[str, Domain]:
        """Every declared domain, by its place in the file."""
        domains = {"domain": self.domain.to_domain()}
        for party, spec in self.parties.items():
            for name, feature in spec.features.items():
                if feature.domain is not None:
                    domains[f"parties.{party}.features.{name}.domain"] = feature.domain.to_domain()
        return domains

    @property
    def denoising(self) -> Literal["none", "joint"]:
        """The denoising of others' columns before training; ``auto`` is resolved.

        ``auto`` is ``joint`` where the label holder has no columns of its own, the booster is
        LightGBM, and scoring meets clear rows; otherwise ``none``.
        """
        training = self.training
        if training.denoise != "auto":
            return training.denoise or "none"
        own = any(p.features for p in self.parties.values() if p.role == "label_holder")
        return "joint" if self.scoring.mode != "desensitised" and not own else "none"

    @property
    def trains_by_blocks(self) -> bool:
        """True if the label holder can train without all rows in one process's memory.

        LightGBM can, unless early stopping, tuning or joint denoising choose among the rows.
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
        """True if a row opens only where several feature holders all have the person."""
        return not self.keeps_all and len(self.feature_holders) > 1

    @property
    def keeps_all(self) -> bool:
        """True if all rows of the label holder are kept, matched or not."""
        return self.alignment.overlap == "left"

    @property
    def label_holder(self) -> str:
        """Name of the one party that holds the labels; in horizontal learning the active one."""
        return next(n for n, p in self.parties.items() if p.role in _OPENS)

    @property
    def label(self) -> Label | None:
        """The target of the model; None where it is not declared."""
        return next((p.label for p in self.parties.values() if p.role in _OPENS), None)

    @property
    def shared_features(self) -> Mapping[str, Feature]:
        """Columns that all parties of horizontal learning have."""
        return self.parties[self.label_holder].features

    @property
    def feature_holders(self) -> tuple[str, ...]:
        """Names of the feature holders, in the file's order."""
        return tuple(n for n, p in self.parties.items() if p.role == "feature_holder")

    def with_shared_features(self) -> "Federation":
        """With what horizontal learning declares once, repeated at each party."""
        if self.learning != "horizontal":
            return self
        common = {"label": self.label, "features": self.shared_features}
        parties = {name: spec.model_copy(update=common) for name, spec in self.parties.items()}
        scoring = self.scoring.model_copy(update={"mode": "local"})
        return self.model_copy(update={"parties": parties, "scoring": scoring})


class OfferedId(Record):
    """The columns that name a person in the party's own table.

    Attributes:
        column: A column; the federation file takes the label holder's name.
        columns: Or several together, whose names it takes likewise.
        types: The types that its values may be declared as.
    """

    column: str = "id"
    columns: tuple[str, ...] = ()
    types: tuple[IdType, ...] = Field(min_length=1)

    def entry(self, common: Collection[IdType]) -> dict[str, Any]:
        """The federation file's entry: of several columns with all rules.

        Args:
            common: The types that all parties' values may be declared as.
        """
        if self.columns:
            return {"columns": list(self.columns), "normalise": list(RULES), "type": "string"}
        return {"column": self.column, "type": min(common)}


class Offer(Record):
    """The whole of an offer: keys, columns, types, bounds and mechanisms, and no data.

    Attributes:
        version: Of this format.
        federation: Name of the federation that it is for.
        party: Who offers.
        id: The ID of a person.
        signing_key: The party's Ed25519 public key.
        encryption_key: The party's X25519 public key.
        label: The target, in the label holder's offer.
        features: The columns, as the federation file repeats them.
    """

    version: Literal[1]
    federation: Name
    party: Name
    id: OfferedId
    signing_key: PublicKey
    encryption_key: PublicKey
    label: Label | None = None
    features: Mapping[FeatureName, Feature] = Field(default_factory=dict)

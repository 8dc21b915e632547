"""``policy.yaml``: the limits that a party sets, which no form or other party can override."""

from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from pydantic import Field, NonNegativeInt, PositiveFloat

from opboost_ops.config.federation import ScoringMode
from opboost_ops.config.schema import FeatureName, Name, PublicKey, Record

AdminAction = Literal["promote", "roll_back", "stop", "resume"]

ADMIN_ACTIONS: tuple[AdminAction, ...] = get_args(AdminAction)

#: Public reasons for an action. Airflow's database keeps the form, readable by everyone who sees
#: the DAG, so reasons in other words can only be given by command.
Reason = Literal[
    "better in use",
    "worse in use",
    "drift",
    "fault in the data",
    "privacy",
    "law or contract",
    "maintenance",
    "a trial",
    "told at home",
]

REASONS: tuple[Reason, ...] = get_args(Reason)


class Serve(Record):
    """Scoring of single rows if other parties' values are old or missing.

    A missing value is replaced by the feature's declared fill; a version with
    ``alignment.overlap: left`` treats the person as one that the party does not have. Without
    either, a person without values that the version splits on is refused.

    Attributes:
        max_age_days: Age from which other parties' values are old; default: never.
        old: A person with old values is scored and flagged, scored as if they were missing, or
            refused.
        unknown: The same for a person without values in any accepted scoring run.
        withdrawn: If a party has left the federation, its ``last`` values are used, count as
            ``missing``, or the version stops scoring (``refuse``).
    """

    max_age_days: PositiveFloat | None = None
    old: Literal["flag", "missing", "refuse"] = "flag"
    unknown: Literal["missing", "refuse"] = "missing"
    withdrawn: Literal["last", "missing", "refuse"] = "refuse"


Share = Annotated[float, Field(ge=0, le=1)]

Column = Annotated[str, Field(min_length=1)]


class Receiver(Record):
    """A party that may receive releases, pinned by its public key.

    Attributes:
        signing_key: The key.
    """

    signing_key: PublicKey


#: Source of routed answers: pinned values, or those of the day.
Routed = Literal["once", "every_run"]


class FeatureRule(Record):
    """A feature's raw column, and its permitted releases.

    Attributes:
        column: Its name in the party's own table, if different; no other party sees it. Losses are
            charged to this raw column.
        mechanisms: Permitted mechanisms; none for columns that are not released (the label
            holder's own, and all in horizontal learning).
        budget: Cap on the sum of loss(R - L) over all releases of the raw column, whatever the
            receiver, with missing bits and private edges.
        routed: Routed scoring of its exact values: ``once`` compares the values pinned with the
            release with thresholds, ``every_run`` those of the day. Not allowed by default.
    """

    column: Column | None = None
    mechanisms: tuple[str, ...] = ()
    budget: PositiveFloat | None = None
    routed: Routed | None = None


class AllFeatures(Record):
    """Cap on the total loss of one person's features.

    Attributes:
        budget: Cap on the sum of loss(R - L) over all raw columns and releases.
    """

    budget: PositiveFloat | None = None


class ModelBudget(Record):
    """Cap on the composed cost of all differentially private models and metrics of own rows.

    Attributes:
        epsilon: Cap on the composed epsilon for a replaced row, over all models ever trained,
            including those that never became champion. Replacement, because row counts are public.
        delta: The delta at which the models' composed privacy curve is converted to epsilon;
            default: the smallest declared delta.
    """

    epsilon: PositiveFloat
    delta: float | None = Field(default=None, gt=0, lt=0.01)


class LeastRows(Record):
    """Minimum number of rows per run, by purpose.

    Attributes:
        train: Minimum of a training run.
        score: Minimum of a scoring run.
    """

    train: int = Field(default=1, ge=1)
    score: int = Field(default=0, ge=0)


class AlignmentRules(Record):
    """Rules for alignment: queries and sealed rows.

    Attributes:
        seal_everybody: Allow sealed rows of everybody in the table to be sent. All are charged;
            the label holder can open those that it queries. Required of a feature holder.
        members: What the label holder may learn about each queried person, if there are several
            feature holders: whether ``all`` have the person, or whether ``each`` does, as required
            by ``overlap: left``.
        max_new_queries: Maximum number of different people that a label holder queries in a
            calendar month, over all its federations; required of a feature holder.
        max_queries_total: The same over all months; a person counts once per month.
        least_rows: A feature holder with fewer rows in its own table releases nothing.
        least_common: A label holder with fewer common people trains no model.
    """

    seal_everybody: bool = False
    members: tuple[Literal["all", "each"], ...] = Field(default=("all",), min_length=1)
    max_new_queries: NonNegativeInt | None = None
    max_queries_total: NonNegativeInt | None = None
    least_rows: LeastRows = LeastRows()
    least_common: int = Field(default=100, ge=1)


class Checks(Record):
    """Thresholds of the party's data checks, as shares of rows.

    Attributes:
        max_clipped_share: Maximum share of values outside a feature's bounds.
        max_missing_share: Maximum share of missing values.
        max_drift: Population stability index, compared with the champion's training table, above
            which there is drift; 0.1 and 0.25 are customary. Not a share.
    """

    max_clipped_share: Share = 0.05
    max_missing_share: Share = 0.5
    max_drift: PositiveFloat = 0.25


class Policy(Record):
    """The content of ``policy.yaml``.

    Attributes:
        id_column: The raw ID column of the party's table; default: as in the federation file.
        columns: Raw columns of declared names other than features: label, weights, columns of the
            ID.
        require_encryption: Refuse plans in which a receiver has no encryption key; its files would
            be readable to all readers of the store.
        receivers: Parties that may receive releases.
        features: Features that may be released, and how.
        all_features: Cap on their total loss.
        model_budget: Cap on the composed cost of differentially private models; default: none.
        scoring: Scoring modes that this party allows.
        serve: How the label holder scores single rows without the other parties.
        alignment: Rules for alignment queries.
        checks: Thresholds of its checks.
        approve: Releases that the party's staff must approve before they are drawn: the ``first``
            release of a federation to its label holder, its first routed answers and its first
            horizontal training; ``every`` charged release as well, and those of each run with
            ``routed: every_run`` or horizontal training; or ``never``.
        acts: Actions that may be requested through Airflow; default: none. By command all are
            possible.
    """

    version: Literal[1]
    party: Name
    id_column: Column | None = None
    columns: Mapping[str, Column] = Field(default_factory=dict)
    require_encryption: bool = False
    receivers: Mapping[Name, Receiver] = Field(default_factory=dict)
    features: Mapping[FeatureName, FeatureRule] = Field(default_factory=dict)
    all_features: AllFeatures = AllFeatures()
    model_budget: ModelBudget | None = None
    scoring: tuple[ScoringMode, ...] = ("local", "desensitised")
    serve: Serve = Serve()
    alignment: AlignmentRules = AlignmentRules()
    checks: Checks = Checks()
    approve: Literal["first", "every", "never"] = "never"
    acts: tuple[AdminAction, ...] = ()

    def raw_column(self, name: str, identity: str) -> str:
        """Return the name of a declared column in the party's own tables.

        Args:
            name: Its name in the federation file.
            identity: Name of the ID column in the federation file.
        """
        if name == identity and self.id_column is not None:
            return self.id_column
        rule = self.features.get(name)
        if rule is not None and rule.column is not None:
            return rule.column
        return self.columns.get(name, name)

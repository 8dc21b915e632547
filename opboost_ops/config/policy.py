"""``policy.yaml``: what a party allows, whatever a form or a coordinator says."""

from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from pydantic import Field, NonNegativeInt, PositiveFloat

from opboost_ops.config.federation import ScoringMode
from opboost_ops.config.schema import FeatureName, Name, PublicKey, Record

AdminAction = Literal["promote", "roll_back", "stop", "resume"]

ADMIN_ACTIONS: tuple[AdminAction, ...] = get_args(AdminAction)

#: Why it is asked, in public words: what is typed into a form lies in Airflow's database, where
#: anyone who sees the DAG reads it. In words of one's own it is said at home.
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
    """How single rows are scored if other parties' values are old or missing.

    A value that is missing takes the feature's declared fill; a version with ``alignment.overlap:
    left`` treats the person as one whom the party lacks. Without either, a person who lacks values
    that the version splits on is refused.

    Attributes:
        max_age_days: Age from which other parties' values are old; default: never.
        old: A person with old values is scored and flagged, scored as if they were missing, or
            refused.
        unknown: The same for a person without values in any accepted scoring run.
        withdrawn: If a party has left the federation, its last values are used, count as missing,
            or the version stops scoring.
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


#: How routed answers are made: from pinned values, or from those of the day.
Routed = Literal["once", "every_run"]


class FeatureRule(Record):
    """A feature's column, and what may be released of it.

    Attributes:
        column: Its name in the party's own table, if different; no other party sees it. Losses are
            charged to this raw column.
        mechanisms: Mechanisms that may release it; none for columns that stay at home (the label
            holder's own, and all in horizontal learning).
        budget: Cap on the sum of loss(R - L) over all releases of the raw column, whatever the
            receiver, with missing bits and private edges.
        routed: Whether routed scoring may compare its exact values with thresholds: ``once`` those
            pinned with the release, ``every_run`` those of the day. Not allowed when absent.
    """

    column: Column | None = None
    mechanisms: tuple[str, ...] = ()
    budget: PositiveFloat | None = None
    routed: Routed | None = None


class AllFeatures(Record):
    """Cap on the total loss of one person's features.

    Attributes:
        budget: On the sum of loss(R - L) over all raw columns and releases.
    """

    budget: PositiveFloat | None = None


class ModelBudget(Record):
    """Cap on the composed cost of all private models and noisy metrics of the party's rows.

    Attributes:
        epsilon: Cap on the composed epsilon of a row that is replaced, because row counts are
            public, over all models ever trained, also those that never became champion.
        delta: The delta at which the models' shared curve becomes epsilon; default: the least
            declared delta.
    """

    epsilon: PositiveFloat
    delta: float | None = Field(default=None, gt=0, lt=0.01)


class LeastRows(Record):
    """Least rows of a run, by purpose.

    Attributes:
        train: Fewest in a training run.
        score: Fewest in a scoring run.
    """

    train: int = Field(default=1, ge=1)
    score: int = Field(default=0, ge=0)


class AlignmentRules(Record):
    """Rules for alignment: queries and sealed rows.

    Attributes:
        seal_everybody: Allow sealed rows of everybody in the table to leave. All are charged; the
            label holder can open those that it queries. Required of a feature holder.
        members: What the label holder may learn of each person queried, if there are several
            feature holders: whether ``all`` have the person, or whether ``each`` does, as
            ``overlap: left`` needs.
        max_new_queries: Most different people that a label holder queries in a calendar month, over
            all of its federations; required of a feature holder.
        max_queries_total: The same over all months, those of one month counted once.
        least_rows: With fewer rows in its own table a feature holder releases nothing.
        least_common: With fewer common people a label holder trains no model.
    """

    seal_everybody: bool = False
    members: tuple[Literal["all", "each"], ...] = Field(default=("all",), min_length=1)
    max_new_queries: NonNegativeInt | None = None
    max_queries_total: NonNegativeInt | None = None
    least_rows: LeastRows = LeastRows()
    least_common: int = Field(default=100, ge=1)


class Checks(Record):
    """Thresholds of the party's checks, as shares of rows.

    Attributes:
        max_clipped_share: Of values outside a feature's bounds.
        max_missing_share: Of missing values.
        max_drift: Population stability index against the champion's training table above which
            there is drift; 0.1 and 0.25 are customary. Not a share.
    """

    max_clipped_share: Share = 0.05
    max_missing_share: Share = 0.5
    max_drift: PositiveFloat = 0.25


class Policy(Record):
    """The whole of ``policy.yaml``.

    Attributes:
        id_column: The raw ID column of the party's table; default: as in the federation file.
        columns: Raw columns of declared names other than features: label, weights, columns of the
            ID.
        require_encryption: Refuse plans in which a receiver has no encryption key; its files would
            be readable to all readers of the store.
        receivers: Who may receive releases.
        features: Which features may be released, and how.
        all_features: Caps on their sum.
        model_budget: Cap on the composed cost of private models; default: none.
        scoring: Scoring modes that this party allows.
        serve: How the label holder scores single rows without the other parties.
        alignment: Rules for alignment queries.
        checks: Thresholds of its checks.
        approve: Which releases a person of the party must approve before they are drawn: the
            ``first`` release of a federation to its label holder, its first routed answers and its
            first horizontal training; ``every`` one that opens and is charged, too, and each run's
            of ``routed: every_run`` and horizontal training; or none (``never``).
        acts: Actions that may be requested through Airflow; default: none. At home all are
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
        """The name of a declared column in the party's own tables.

        Args:
            name: As the federation file names it.
            identity: The federation file's name of the ID column.
        """
        if name == identity and self.id_column is not None:
            return self.id_column
        rule = self.features.get(name)
        if rule is not None and rule.column is not None:
            return rule.column
        return self.columns.get(name, name)

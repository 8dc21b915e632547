"""``policy.yaml``: what a party allows, whatever a form or a coordinator says."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field, model_validator

from opboost_ops.config.admin_actions import AdminAction
from opboost_ops.config.federation import ScoringMode
from opboost_ops.config.schema import FeatureName, Name, PublicKey, Record
from opboost_ops.config.serving import Serve

Share = Annotated[float, Field(ge=0, le=1)]


class Receiver(Record):
    """A party that may receive releases, pinned by its public key.

    Attributes:
        signing_key: The key.
        linkable: Whether it shares one noise secret with all other linkable receivers. They can
            then link rows of their artifacts, and an unchanged cell is the same draw for all of
            them; otherwise each receiver's release is a draw of its own, and charged apart.
    """

    signing_key: PublicKey
    linkable: bool = False


class FeatureRule(Record):
    """Which column a feature permanently is, and what may be done with it.

    Attributes:
        uuid: The column's immutable name, made once by the party; the federation file repeats it.
            Noise, cells, edges and budgets go by it, so a plan that bears another one is refused,
            and so is every release of a feature without.
        column: Its name in the party's own table, where that is not the feature's: no other
            party ever sees it.
        mechanisms: Names of the mechanisms that may release it; none where it is only read at
            home, as the label holder's own columns are, and all of horizontal learning.
        max_splits: Most split values answered in one run; |D| - 1 when absent.
        max_loss_1: Cap on loss(1) of a release, a move by one step of the domain.
        max_loss_whole: Cap on loss(R - L) of a release, a move across the domain; a category's
            whole loss.
        budget_1: Cap on the sum of loss(1) over all different releases ever.
        budget_whole: The same for loss(R - L).
        max_changes: How many different values of a person's cell may be released; a cell at this
            cap goes on releasing the last one, and nobody outside can tell.
        least_cell_width: How narrow, in the feature's unit, the cells may become that all
            partition edges and thresholds ever disclosed leave; for a nominal feature, 1 is one
            category. Local-map and routed scoring need it: what they disclose is exact.
    """

    uuid: UUID | None = None
    column: str | None = Field(default=None, min_length=1)
    mechanisms: tuple[str, ...] = ()
    max_splits: int | None = Field(default=None, ge=0)
    max_loss_1: float | None = Field(default=None, gt=0)
    max_loss_whole: float | None = Field(default=None, gt=0)
    budget_1: float | None = Field(default=None, gt=0)
    budget_whole: float | None = Field(default=None, gt=0)
    max_changes: int | None = Field(default=None, ge=1)
    least_cell_width: float | None = Field(default=None, ge=0)


class AllFeatures(Record):
    """Caps on what one person's features cost together.

    Attributes:
        max_loss_1: On the sum of loss(1) over the features of one release.
        max_loss_whole: On the sum of loss(R - L) over the features of one release.
        budget_1: On the sum of loss(1) over all features and all different releases ever.
        budget_whole: The same for loss(R - L).
    """

    max_loss_1: float | None = Field(default=None, gt=0)
    max_loss_whole: float | None = Field(default=None, gt=0)
    budget_1: float | None = Field(default=None, gt=0)
    budget_whole: float | None = Field(default=None, gt=0)


class ModelBudget(Record):
    """What all private models of the party's rows may cost together, metrics with noise included.

    Attributes:
        epsilon: Cap on the composed epsilon of a row added or removed, over all models ever
            trained, also those that never became champion.
        delta: At which the models' shared curve is turned into epsilon; the least delta that any
            of them was declared with when absent.
    """

    epsilon: float = Field(gt=0)
    delta: float | None = Field(default=None, gt=0, lt=0.01)


class LeastRows(Record):
    """How few rows are too few for a run of each purpose.

    Attributes:
        train: Fewest in a training run.
        score: Fewest in a scoring run.
    """

    train: int = Field(default=1, ge=1)
    score: int = Field(default=1, ge=1)


#: Former names of entries of ``alignment``, and entries that are gone.
_RENAMED = {"max_new_asked": "max_new_queries", "max_asked_ever": "max_queries_total"}
_GONE = ("allow", "decoys", "max_asked")


class AlignmentRules(Record):
    """What a party's table may be asked, and what leaves of it.

    Attributes:
        seal_everybody: Whether sealed rows of all people of the party's table may leave: all of
            them are charged, and the label holder can open those of people whom it asks about.
            Without it a feature holder takes part in no run.
        members: What the label holder may learn of each person that it asks about, where there
            are several feature holders: whether ``all`` of them have the person, or of ``each``
            whether it does, as ``overlap: left`` needs. With one feature holder both are the same.
        max_new_queries: About how many different people the label holder may ask in one calendar
            month; required of a feature holder.
        max_queries_total: About how many in all months together, where those of a month count
            once: that many guesses of who is a customer it could have tested by now.
        least_rows: A feature holder with fewer rows in its own table releases nothing.
        least_common: A run with fewer common people stops at the label holder.
    """

    seal_everybody: bool = False
    members: tuple[Literal["all", "each"], ...] = Field(default=("all",), min_length=1)
    max_new_queries: int | None = Field(default=None, ge=0)
    max_queries_total: int | None = Field(default=None, ge=0)
    least_rows: LeastRows = LeastRows()
    least_common: LeastRows = LeastRows()

    @model_validator(mode="before")
    @classmethod
    def _read_former(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        if gone := [name for name in _GONE if name in data]:
            raise ValueError(
                f"{', '.join(gone)} belong to ways of alignment that are gone: write "
                "seal_everybody: true and max_new_queries instead"
            )
        return {_RENAMED.get(name, name): value for name, value in data.items()}


class Checks(Record):
    """Thresholds of the party's checks, as shares of rows.

    Attributes:
        max_clipped_share: Of values outside a feature's bounds.
        max_missing_share: Of missing values.
        max_drift: The greatest population stability index, between the champion's training table
            and a later one, that is no drift; 0.1 and 0.25 are customary. Not a share.
        tell_drift: Whether everybody who sees a run may know that there is drift.
    """

    max_clipped_share: Share = 0.05
    max_missing_share: Share = 0.5
    max_drift: float = Field(default=0.25, gt=0)
    tell_drift: bool = False


class Above(Record):
    """From which cost on a release needs a person; never where absent.

    Attributes:
        loss_1: Sum of loss(1) over the features of one release.
        loss_whole: Sum of loss(R - L) over the features of one release.
        account: Sum of loss(R - L) over all features and all releases ever, this one included.
    """

    loss_1: float | None = Field(default=None, ge=0)
    loss_whole: float | None = Field(default=None, ge=0)
    account: float | None = Field(default=None, ge=0)


class Approve(Record):
    """When a person of the party must approve a release before anything of it is drawn.

    Attributes:
        first_release: Before the first release of a federation to its label holder, the first
            routed answers, and the first training of horizontal learning.
        above: Before each release that costs more; routed answers and sums, which have no loss
            to be held against it, are always above.
        hours: After how many hours without an answer it is declined.
    """

    first_release: bool = False
    above: Above = Above()
    hours: float = Field(default=48, gt=0, le=24 * 90)


class Policy(Record):
    """The whole of ``policy.yaml``.

    Attributes:
        id_column: The raw column of the party's table that names a person, whatever the
            federation file calls it; what the file says when absent.
        columns: Raw columns of other declared names that are no features: the label's, the
            holdout's, those that an ID is made of.
        require_encryption: Whether every plan is refused in which a party that this one sends to
            has no encryption key: without it anyone who reads the store reads what is sent.
        receivers: Who may receive releases.
        features: Which features may go, and how.
        all_features: Caps on their sum.
        model_budget: Cap on what private models cost together; no cap when absent.
        scoring: Modes of scoring in which this party takes part.
        serve: How the label holder scores single rows without the other parties.
        alignment: How the label holder may find the people that all parties have.
        checks: Thresholds of its checks.
        approve: Which releases need a person; none when absent.
        acts: What may be asked for through Airflow; nothing when absent. At home everything may.
    """

    version: Literal[1]
    party: Name
    id_column: str | None = Field(default=None, min_length=1)
    columns: Mapping[str, Annotated[str, Field(min_length=1)]] = Field(default_factory=dict)
    require_encryption: bool = False
    receivers: Mapping[Name, Receiver] = Field(default_factory=dict)
    features: Mapping[FeatureName, FeatureRule] = Field(default_factory=dict)
    all_features: AllFeatures = AllFeatures()
    model_budget: ModelBudget | None = None
    scoring: tuple[ScoringMode, ...] = ("local", "desensitised")
    serve: Serve = Serve()
    alignment: AlignmentRules = AlignmentRules()
    checks: Checks = Checks()
    approve: Approve = Approve()
    acts: tuple[AdminAction, ...] = ()

    def noise_group(self, receiver: str) -> str:
        """Under which name the secret of a receiver's noise is derived."""
        known = self.receivers.get(receiver)
        # A colon is in no party's name.
        return ":linkable" if known is not None and known.linkable else receiver

    def raw_column(self, name: str, identity: str) -> str:
        """What a declared column is called in the party's own tables.

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

    def rule_of(self, column: UUID, feature: str) -> FeatureRule | None:
        """The rule of a column: by its pinned UUID, in a policy that pins none by name.

        Args:
            column: Its UUID.
            feature: Its last known name.
        """
        for rule in self.features.values():
            if rule.uuid == column:
                return rule
        named = self.features.get(feature)
        return named if named is not None and named.uuid is None else None

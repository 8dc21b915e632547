"""A party's policy: caps that a declaration fits, and a plan's compliance by public facts."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

from pydantic import ValidationError

from opboost_ops.config.columns import columns_of
from opboost_ops.config.feature import Feature
from opboost_ops.config.federation import Federation
from opboost_ops.config.policy import Policy
from opboost_ops.domain import Domain
from opboost_ops.errors import PolicyError
from opboost_ops.mechanisms import UnaryEncoding
from opboost_ops.mechanisms.randomised_response import BIT
from opboost_ops.privacy.loss import LossCurve, category_loss, loss_curve

#: How many releases of a feature fit into the budget of a policy that is written.
RELEASES = 1

#: How many months of a month's queries a policy that is written allows in all.
MONTHS = 10

#: Caps are written with four digits, rounded up.
_STEPS = 10_000

#: What the label holder learns, by what a policy calls it.
_LEARNS = {"all": "whether all feature holders have them", "each": "which ones have them"}


def limits(
    feature: Mapping[str, Any], domain: Mapping[str, int], edges: float = 0.0
) -> dict[str, Any]:
    """The budget of a feature's rule at its declared mechanism's own loss.

    It needs the domain and the mechanism alone, so it is known before bounds and categories are. A
    loss that is infinite by structure gets no budget, for none would let it pass.

    Args:
        feature: Its entry in the federation file.
        domain: The federation's, ``lower`` and ``upper``.
        edges: What private edges of a number cost once, besides.

    Returns:
        ``budget`` where the loss is finite: the cost of one release, so that no release of another
        map or channel fits in.
    """
    try:
        parsed = Feature.model_validate(feature)
    except ValidationError:
        return {}  # Anyone who reads the federation file is told where and why.
    curves = list(_curves(parsed, Domain(domain["lower"], domain["upper"])))
    losses = [curve.loss[-1] for curve in curves]
    finite = [loss for loss in losses if loss != "inf"]
    if len(finite) < len(losses):
        return {}
    once = edges if parsed.type == "numeric" else 0.0
    return {"budget": _rounded_up(RELEASES * sum(finite) + once)}


def all_features_limit(budgets: Iterable[float | None]) -> float | None:
    """The budget of all columns together: the sum of theirs; None where one has none.

    Args:
        budgets: Of the columns.
    """
    columns = list(budgets)
    finite = [Fraction(budget) for budget in columns if budget is not None]
    if not finite or len(finite) < len(columns):
        return None
    return math.ceil(sum(finite) * _STEPS) / _STEPS


def _curves(feature: Feature, domain: Domain) -> Iterator[LossCurve]:
    """Of the feature's own values, and of its missing bit."""
    if isinstance(feature.mechanism, UnaryEncoding):
        # A changed category costs the same however many there are.
        yield category_loss(feature.mechanism, 2)
    elif feature.mechanism is not None:
        yield loss_curve(feature.mechanism, feature.domain_in(domain))
    if feature.missing_bit is not None:
        yield loss_curve(feature.missing_bit, BIT)


def _rounded_up(loss: float) -> float:
    return math.ceil(loss * _STEPS) / _STEPS


def require_consent(policy: Policy, federation: Federation, party: str) -> None:
    """Refuse a plan that asks for more than the party's policy allows.

    Args:
        policy: The party's own.
        federation: The plan's.
        party: The party; of one that releases no column, only its encryption and its own columns
            are asked for.

    Raises:
        PolicyError: Naming every rule that the plan breaks.
    """
    refused = [
        *_readable_by_all(policy, federation, party),
        *_other_columns(policy, federation, party),
        *_alignment_faults(policy, federation, party),
    ]
    if federation.parties[party].role == "feature_holder":
        refused += _release_faults(policy, federation, party)
    if refused:
        raise PolicyError(
            f"The policy of {party} refuses this run: {'; '.join(refused)}.",
            "Its owner may change policy.yaml, or the federation its file.",
        )


def _release_faults(policy: Policy, federation: Federation, party: str) -> Iterator[str]:
    receiver = federation.label_holder
    if receiver not in policy.receivers:
        yield f"receivers: {receiver} is not among them"
    elif policy.receivers[receiver].signing_key != federation.parties[receiver].signing_key:
        yield f"receivers.{receiver}: the plan gives another signing key"
    for mode in federation.scoring.modes:
        if mode not in policy.scoring:
            yield f"scoring: {mode} is not among them"
    for name, feature in federation.parties[party].features.items():
        rule = policy.features.get(name)
        if rule is None:
            yield f"features: {name} is not among those that may go"
            continue
        if feature.mechanism is None or feature.mechanism.name not in rule.mechanisms:
            declared = feature.mechanism.name if feature.mechanism else "none"
            yield f"features.{name}.mechanisms: {declared} is not among them"
        bit = feature.missing_bit
        if bit is not None and bit.name not in rule.mechanisms:
            yield f"features.{name}.mechanisms: {bit.name} is not among them"
        if "routed" in federation.scoring.modes and rule.routed is None:
            yield (
                f"features.{name}.routed: routed answers tell its exact value, and neither `once` "
                "nor `every_run` is written there"
            )


def _readable_by_all(policy: Policy, federation: Federation, party: str) -> Iterator[str]:
    """Without the receiver's key anyone who reads the store reads all that is sent to it."""
    holder = federation.parties[party].role == "feature_holder"
    sent_to = {federation.label_holder} if holder else set(federation.parties) - {party}
    for receiver, of in federation.parties.items():
        if policy.require_encryption and receiver in sent_to and of.encryption_key is None:
            yield f"require_encryption: the plan has no encryption_key of {receiver}"


def require_own_columns(policy: Policy, federation: Federation, party: str) -> None:
    """Refuse a declaration by which two features are one column of the party's table.

    Args:
        policy: The party's own.
        federation: As declared.
        party: The party.

    Raises:
        PolicyError: Naming them.
    """
    if refused := list(_other_columns(policy, federation, party)):
        raise PolicyError(
            f"The columns of {party} are not apart: {'; '.join(refused)}.",
            "Nothing was drawn. Correct the federation file, or `column` in policy.yaml.",
        )


def _other_columns(policy: Policy, federation: Federation, party: str) -> Iterator[str]:
    identity, features = federation.id.column, federation.parties[party].features
    raw = {name: policy.raw_column(name, identity) for name in (identity, *features)}
    for first, other in combinations(sorted(raw), 2):
        if raw[first] == raw[other]:
            yield f"{first} and {other} are one column of the party's table"


def require_splits_allowed(
    policy: Policy, federation: Federation, party: str, request: Mapping[str, Sequence[float]]
) -> None:
    """Refuse a request for columns that the party has not released, or for too many splits.

    Args:
        policy: The party's own.
        federation: The plan's.
        party: The party.
        request: Ranks or thresholds asked for, by column.

    Raises:
        PolicyError: Naming every rule that the request breaks.
    """
    refused: list[str] = []
    columns = {column.name: column for column in columns_of(federation, party)}
    for name, ranks in request.items():
        column = columns.get(name)
        if column is None or column.feature not in policy.features:
            refused.append(f"{name} is not a column that {party} released")
            continue
        most = column.domain.size - 1
        if len(ranks) > most:
            refused.append(f"{name} has {most} splits, and the request names {len(ranks)}")
    if refused:
        raise PolicyError(
            f"The policy of {party} refuses the request: {'; '.join(refused)}.",
            "Nothing was answered. Its owner may change policy.yaml.",
        )


def _alignment_faults(policy: Policy, federation: Federation, party: str) -> Iterator[str]:
    """A feature holder's rules for its whole table, independent of the queries."""
    rules = policy.alignment
    if federation.parties[party].role != "feature_holder":
        return
    if not rules.seal_everybody:
        yield (
            "alignment.seal_everybody: sealed rows of all people of the table leave, all of them "
            "are charged, and `true` is not written there"
        )
    if rules.max_new_queries is None:
        yield "alignment.max_new_queries: the most people queried in a month is missing"
    learns = "all" if federation.has_shares else "each"
    if len(federation.feature_holders) > 1 and learns not in rules.members:
        yield (
            f"alignment.members: `{learns}` is not among them, and with overlap: "
            f"{federation.alignment.overlap} the label holder learns of each person queried "
            f"{_LEARNS[learns]}"
        )


def require_queries_allowed(
    policy: Policy, party: str, receiver: str, month: str, people: int, total: int
) -> None:
    """Refuse a query of more people than the policy allows.

    Args:
        policy: The party's own.
        party: The party.
        receiver: Who asks.
        month: The run's.
        people: About how many different people it has queried in that month, with this run.
        total: About how many in all months.

    Raises:
        PolicyError: Naming every rule that is broken.
    """
    # How many are new, and the caps, are between the two parties alone: this text goes further.
    rules, refused = policy.alignment, []
    if rules.max_new_queries is not None and people > rules.max_new_queries:
        refused.append(
            f"more different people were queried in {month} than alignment.max_new_queries allows"
        )
    if rules.max_queries_total is not None and total > rules.max_queries_total:
        refused.append(
            "more people were queried in all months than alignment.max_queries_total allows"
        )
    if refused:
        raise PolicyError(
            f"The policy of {party} refuses to answer who of {receiver}'s people it has: "
            f"{'; '.join(refused)}.",
            "Nothing was answered. Its owner may change policy.yaml.",
        )

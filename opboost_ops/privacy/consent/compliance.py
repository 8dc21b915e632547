"""A party's policy: default caps, and checks of a plan against it, from public facts alone."""

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

#: Number of releases of a feature that the budget of a generated policy covers.
RELEASES = 1

#: Number of months of queries that a generated policy allows in total.
MONTHS = 10

#: Caps are written with four decimal places, rounded up.
_STEPS = 10_000

#: What the label holder learns, by the policy's keyword.
_LEARNS = {"all": "whether all feature holders have them", "each": "which ones have them"}


def limits(
    feature: Mapping[str, Any], domain: Mapping[str, int], edges: float = 0.0
) -> dict[str, Any]:
    """Return the default budget of a feature: the loss of one release by its declared mechanism.

    It depends only on the domain and the mechanism, so it is known before bounds and categories. An
    infinite loss gets no budget, because no finite budget would cover it.

    Args:
        feature: Its entry in the federation file.
        domain: Domain of the federation, ``lower`` and ``upper``.
        edges: One-time loss of private edges, for a numeric feature.

    Returns:
        ``budget`` if the loss is finite: the loss of one release, so that a release with another
        map or channel exceeds it.
    """
    try:
        parsed = Feature.model_validate(feature)
    except ValidationError:
        return {}  # Reading the federation file reports this error.
    curves = list(_curves(parsed, Domain(domain["lower"], domain["upper"])))
    losses = [curve.loss[-1] for curve in curves]
    finite = [loss for loss in losses if loss != "inf"]
    if len(finite) < len(losses):
        return {}
    once = edges if parsed.type == "numeric" else 0.0
    return {"budget": _rounded_up(RELEASES * sum(finite) + once)}


def all_features_limit(budgets: Iterable[float | None]) -> float | None:
    """Return the budget of all columns together: the sum of theirs; None if one has none.

    Args:
        budgets: Budgets of the columns.
    """
    columns = list(budgets)
    finite = [Fraction(budget) for budget in columns if budget is not None]
    if not finite or len(finite) < len(columns):
        return None
    return math.ceil(sum(finite) * _STEPS) / _STEPS


def _curves(feature: Feature, domain: Domain) -> Iterator[LossCurve]:
    """Yield the loss curves of the feature's values and of its missing bit."""
    if isinstance(feature.mechanism, UnaryEncoding):
        # The loss does not depend on the number of categories.
        yield category_loss(feature.mechanism, 2)
    elif feature.mechanism is not None:
        yield loss_curve(feature.mechanism, feature.domain_in(domain))
    if feature.missing_bit is not None:
        yield loss_curve(feature.missing_bit, BIT)


def _rounded_up(loss: float) -> float:
    return math.ceil(loss * _STEPS) / _STEPS


def require_consent(policy: Policy, federation: Federation, party: str) -> None:
    """Reject a plan that exceeds the party's policy.

    Args:
        policy: The party's policy.
        federation: The federation of the plan.
        party: The party. If it releases no column, only its encryption and columns are checked.

    Raises:
        PolicyError: The plan breaks the listed rules.
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
            f"The policy of {party} rejects this run: {'; '.join(refused)}.",
            "Its owner may change policy.yaml, or the federation its file.",
        )


def _release_faults(policy: Policy, federation: Federation, party: str) -> Iterator[str]:
    receiver = federation.label_holder
    if receiver not in policy.receivers:
        yield f"receivers: {receiver} is not listed"
    elif policy.receivers[receiver].signing_key != federation.parties[receiver].signing_key:
        yield f"receivers.{receiver}: the plan has a different signing key"
    for mode in federation.scoring.modes:
        if mode not in policy.scoring:
            yield f"scoring: {mode} is not listed"
    for name, feature in federation.parties[party].features.items():
        rule = policy.features.get(name)
        if rule is None:
            yield f"features: {name} is not listed for release"
            continue
        if feature.mechanism is None or feature.mechanism.name not in rule.mechanisms:
            declared = feature.mechanism.name if feature.mechanism else "none"
            yield f"features.{name}.mechanisms: {declared} is not listed"
        bit = feature.missing_bit
        if bit is not None and bit.name not in rule.mechanisms:
            yield f"features.{name}.mechanisms: {bit.name} is not listed"
        if "routed" in federation.scoring.modes and rule.routed is None:
            yield (
                f"features.{name}.routed: routed answers disclose its exact value; set `once` or "
                "`every_run` to allow them"
            )


def _readable_by_all(policy: Policy, federation: Federation, party: str) -> Iterator[str]:
    """Yield receivers without a key: everyone who reads the store could read what they receive."""
    holder = federation.parties[party].role == "feature_holder"
    sent_to = {federation.label_holder} if holder else set(federation.parties) - {party}
    for receiver, of in federation.parties.items():
        if policy.require_encryption and receiver in sent_to and of.encryption_key is None:
            yield f"require_encryption: the plan has no encryption_key of {receiver}"


def require_own_columns(policy: Policy, federation: Federation, party: str) -> None:
    """Reject a declaration in which two features are the same column of the party's table.

    Args:
        policy: The party's policy.
        federation: The declared federation.
        party: The party.

    Raises:
        PolicyError: Two features share a column.
    """
    if refused := list(_other_columns(policy, federation, party)):
        raise PolicyError(
            f"Features of {party} share a column: {'; '.join(refused)}.",
            "Nothing was drawn. Correct the federation file, or `column` in policy.yaml.",
        )


def _other_columns(policy: Policy, federation: Federation, party: str) -> Iterator[str]:
    identity, features = federation.id.column, federation.parties[party].features
    raw = {name: policy.raw_column(name, identity) for name in (identity, *features)}
    for first, other in combinations(sorted(raw), 2):
        if raw[first] == raw[other]:
            yield f"{first} and {other} are the same column of the party's table"


def require_splits_allowed(
    policy: Policy, federation: Federation, party: str, request: Mapping[str, Sequence[float]]
) -> None:
    """Reject a request for columns that the party has not released, or for too many splits.

    Args:
        policy: The party's policy.
        federation: The federation of the plan.
        party: The party.
        request: Requested ranks or thresholds, by column.

    Raises:
        PolicyError: The request breaks the listed rules.
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
            refused.append(f"{name} has {most} splits, but the request names {len(ranks)}")
    if refused:
        raise PolicyError(
            f"The policy of {party} rejects the request: {'; '.join(refused)}.",
            "Nothing was answered. Its owner may change policy.yaml.",
        )


def _alignment_faults(policy: Policy, federation: Federation, party: str) -> Iterator[str]:
    """Yield broken rules for a feature holder's whole table, independent of the queries."""
    rules = policy.alignment
    if federation.parties[party].role != "feature_holder":
        return
    if not rules.seal_everybody:
        yield (
            "alignment.seal_everybody: sealed rows of everyone in the table are released and "
            "charged; set `true` to allow it"
        )
    if rules.max_new_queries is None:
        yield "alignment.max_new_queries: set the maximum number of people queried per month"
    learns = "all" if federation.has_shares else "each"
    if len(federation.feature_holders) > 1 and learns not in rules.members:
        yield (
            f"alignment.members: `{learns}` is not listed, and with overlap: "
            f"{federation.alignment.overlap} the label holder learns of each person queried "
            f"{_LEARNS[learns]}"
        )


def require_queries_allowed(
    policy: Policy, party: str, receiver: str, month: str, people: int, total: int
) -> None:
    """Reject a query of more people than the policy allows.

    Args:
        policy: The party's policy.
        party: The party.
        receiver: The querying party.
        month: Month of the run.
        people: Approximate number of distinct people queried in that month, including this run.
        total: Approximate number over all months.

    Raises:
        PolicyError: The query breaks the listed rules.
    """
    # The counts and caps are known only to the two parties, but this message reaches others.
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
            f"The policy of {party} refuses to answer which of {receiver}'s people it has: "
            f"{'; '.join(refused)}.",
            "Nothing was answered. Its owner may change policy.yaml.",
        )

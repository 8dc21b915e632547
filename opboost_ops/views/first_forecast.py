"""What agreed columns may cost that no run has released yet: the forecast before a first run."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID

from pydantic import ValidationError

from opboost_ops.config.columns import Column, columns_of
from opboost_ops.config.federation import Federation
from opboost_ops.config.policy import Policy
from opboost_ops.privacy.accountant import Account, Key
from opboost_ops.privacy.agreements import Agreement, Agreements
from opboost_ops.privacy.budgets import Forecast
from opboost_ops.privacy.loss import column_losses
from opboost_ops.privacy.statement import forecasts
from opboost_ops.privacy.worst_case import CellBound
from opboost_ops.views.ledger import LedgerView, RemainingRuns, left_of


def first_forecast(
    agreements: Iterable[Agreement], party: str, policy: Policy
) -> dict[UUID, Forecast]:
    """Forecasts of agreed columns, as if nothing was ever released.

    Args:
        agreements: Those that stand.
        party: Whose columns.
        policy: The party's.
    """
    found: dict[UUID, Account] = {}
    for agreed in agreements:
        federation = _federation_of(agreed.content["federation"])
        if federation is None:
            continue
        for key, column in _keys(federation, party):
            account = found.setdefault(column.uuid, Account(column.feature))
            account.keys[key.bit, key.cells] = key
    return forecasts(found, policy)


def remaining(agreements: Agreements, view: LedgerView, federation: str) -> RemainingRuns | None:
    """What is left for a federation; before its first release, of what the party has agreed to.

    Args:
        agreements: The party's.
        view: Of its ledger.
        federation: Its name.

    Returns:
        None where the party releases no protected column.
    """
    if view.of([federation]):
        return view.left(federation)
    newest = agreements.newest(federation)
    found = first_forecast([newest] if newest else [], view.policy.party, view.policy).values()
    return left_of(found, (), view.person(found)) if found else None


def _keys(federation: Federation, party: str) -> Iterator[tuple[Key, Column]]:
    """A party's noise keys in a federation; those that are equal have one name."""
    if party not in federation.feature_holders:
        return
    receiver = federation.label_holder
    secret = hashlib.sha256(receiver.encode()).digest()
    columns = columns_of(federation, party)
    losses = column_losses(columns)
    for charge, column in {column.charge: column for column in columns}.items():
        key = Key(
            bit=charge.partition("=")[2],
            cells=column.noise_context(secret).hex(),
            receiver=receiver,
            federation=federation.name,
            draws=0,
            charged=0,
            worst=CellBound(),
            most=None,
            inputs=column.source_domain.size,
            loss=losses[charge],
        )
        yield key, column


def _federation_of(content: Mapping[str, Any]) -> Federation | None:
    """The federation of an agreement; None where a mechanism's table is there by its digest."""
    with suppress(ValidationError):
        return Federation.model_validate(content)
    return None

"""What agreed columns may cost that no run has released yet: the forecast before a first run."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID

from pydantic import ValidationError

from opboost_ops.config.federation import Federation
from opboost_ops.config.policy import Policy
from opboost_ops.privacy.accountant import Account, Key
from opboost_ops.privacy.agreements import Agreed
from opboost_ops.privacy.budgets import Forecast
from opboost_ops.privacy.statement import forecasts
from opboost_ops.privacy.worst import Worst
from opboost_ops.run.changes import leaving


def planned(agreements: Iterable[Agreed], party: str, policy: Policy) -> dict[UUID, Forecast]:
    """Forecasts of agreed columns, each at its largest epsilon, as if nothing was ever released.

    Args:
        agreements: Those that stand.
        party: Whose columns.
        policy: The party's.
    """
    found: dict[UUID, Account] = {}
    for agreed in agreements:
        federation = _at_most(agreed.content["federation"])
        if federation is None:
            continue
        features = federation.parties[party].features
        for line in leaving(federation, party):
            name, _, bit = line.charge.partition("=")
            inputs = len(line.curve.loss) + 1
            nothing = Key(bit, "", line.receiver, 0, 0, Worst(), None, inputs, line.curve)
            found.setdefault(features[name].uuid, Account(name)).keys[bit, ""] = nothing
    return forecasts(found, policy)


def _at_most(content: Mapping[str, Any]) -> Federation | None:
    """The federation of an agreement, each column at the largest epsilon that was agreed.

    None where an agreement has only the digest of a mechanism's table, or is of an older release.
    """
    parties = {
        name: {**spec, "features": {f: _feature(one) for f, one in spec["features"].items()}}
        # The label holder may have none of its own.
        if "features" in spec
        else spec
        for name, spec in content["parties"].items()
    }
    with suppress(ValidationError):
        return Federation.model_validate({**content, "parties": parties})
    return None


def _feature(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    if "epsilons" not in spec:
        return spec
    mechanism = {**spec["mechanism"], "epsilon": max(spec["epsilons"])}
    return {**{k: v for k, v in spec.items() if k != "epsilons"}, "mechanism": mechanism}

"""The releases of a run: their cost against the budgets before any work, and their responses.

Whether a run opens a release depends on declarations, dates and the ledger, never on a table.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from opboost_ops.config.federation import Federation, Purpose
from opboost_ops.exchange.party_state import PartyState, open_state
from opboost_ops.learning.federboost.declared import sum_noise_of
from opboost_ops.pipeline.party.local_party import SEEDED, LocalParty, experiment_of
from opboost_ops.pipeline.phases import stages_of
from opboost_ops.pipeline.protocol import STEPS
from opboost_ops.privacy.declarations import declarations
from opboost_ops.privacy.edge_charges import require_charged
from opboost_ops.privacy.ledger.budgets import Budget
from opboost_ops.privacy.ledger.entries import LedgerEntry
from opboost_ops.privacy.releases import (
    Choice,
    FeatureResponses,
    RunRequest,
    require_declared,
)

#: Artifact name in estimated ledger entries.
_AHEAD = "expected"


def require_within(
    state: PartyState,
    party: LocalParty,
    federation: Federation,
    run: str,
    purpose: Purpose,
    day: date,
) -> str:
    """Refuse a run that would exceed a budget of the party.

    Args:
        state: The party's state.
        party: The party.
        federation: The plan's federation.
        run: The run's ID.
        purpose: The run's purpose.
        day: The plan's date.

    Returns:
        Sentences about releases that continue because a due new one does not fit; empty if none.

    Raises:
        BudgetError: A budget would be exceeded, judged from public facts alone.
    """
    require_charged(state.releases, federation, party.name)
    stages = stages_of(federation, purpose, party.name)
    releases = choices(state, party, federation, run, day) if "desensitize" in stages else {}
    facts: dict[str, Any] = {
        "federation": federation.name,
        "run": run,
        "party": party.name,
        "receiver": federation.label_holder,
        "artifact": _AHEAD,
        "rows": 0,
    }
    before = state.ledger.models()
    # A cleared run that runs again has already been charged for its models.
    charged = {entry.kind for entry in before if entry.run == run}
    models = [
        model for model in _model_entries(federation, stages, facts) if model.kind not in charged
    ]
    if models:
        Budget(party.policy).models(before, models)
    return " ".join(
        f"{choice.declaration.feature} goes on with its release of {choice.release.opened}: "
        f"{choice.refused}"
        for choice in releases.values()
        if choice.refused and choice.release
    )


def choices(
    state: PartyState, party: LocalParty, federation: Federation, run: str, day: date
) -> dict[str, Choice]:
    """Return the releases that a run of a party uses, by feature.

    Args:
        state: The party's state.
        party: The party.
        federation: The plan's federation.
        run: The run's ID.
        day: The plan's date.

    Raises:
        BudgetError: A new release would exceed a budget, and no open one can continue; or the run
            recorded releases under another plan.
    """
    declared = declarations(federation, party.name, party.policy, party.site)
    used = state.releases.of_run(federation.name, run)
    receiver = federation.label_holder
    if used is not None:
        require_declared(used, declared.values(), receiver)
        return {feature: Choice(declared[feature], release) for feature, release in used.items()}
    return state.releases.choose(declared.values(), receiver, day, Budget(party.policy).releases)


def model_cost(federation: Federation) -> dict[str, Any] | None:
    """Return the ledger's figures for one private model as declared; None without noise.

    Args:
        federation: The federation as declared.

    Returns:
        ``epsilon``, ``curve`` and ``replaced`` of a `LedgerEntry`.
    """
    private, noise = federation.training.private, sum_noise_of(federation)
    if noise is not None:
        return {"epsilon": noise.curve.epsilon, "curve": noise.curve, "replaced": noise.replaced}
    if private is None or federation.training.trainer != "dpboost":
        return None
    return {"epsilon": private.epsilon, "curve": None, "replaced": None}


def _model_entries(
    federation: Federation, stages: Sequence[str], facts: dict[str, Any]
) -> Iterator[LedgerEntry]:
    private = federation.training.private
    if private is None:
        return
    charges = {STEPS[stage].charges for stage in stages}
    if "model" in charges and (cost := model_cost(federation)) is not None:
        yield LedgerEntry(**facts, **cost, kind="model", account="model")
    if "metrics" in charges and private.metrics_epsilon is not None:
        yield LedgerEntry(**facts, kind="metrics", account="model", epsilon=private.metrics_epsilon)


@dataclass(frozen=True)
class RunReleases:
    """The releases of a party in a run.

    Attributes:
        party: The party.
        federation: The plan's federation.
        run: The run's ID.
        day: The plan's date.
    """

    party: LocalParty
    federation: Federation
    run: str
    day: date

    def unpinned(self, people: np.ndarray) -> np.ndarray:
        """Return the people whose values the run must read, bool, shape (n,).

        Args:
            people: Keyed hashes of everyone in the table, uint8, shape (n, 16).

        Raises:
            BudgetError: A release would exceed a budget, or pins are lost.
        """
        with open_state(self.party.site) as state:
            used = choices(state, self.party, self.federation, self.run, self.day)
            return state.releases.unpinned(used.values(), people)

    def take(
        self, people: np.ndarray, rows: np.ndarray, values: Mapping[str, np.ndarray]
    ) -> Mapping[str, FeatureResponses]:
        """Charge, pin and record the run's releases; see `Releases.take`.

        Args:
            people: Keyed hashes of everyone in the table, uint8, shape (n, 16).
            rows: Row numbers of the values that were read, ascending, shape (m,).
            values: Domain integers of these rows by preprocessed column, shape (m,) each.
        """
        party, federation = self.party, self.federation
        secret = party.site.read_secret()
        declared = declarations(federation, party.name, party.policy, party.site)
        request = RunRequest(
            federation=federation.name,
            run=self.run,
            party=party.name,
            receiver=federation.label_holder,
            day=self.day,
            declarations=tuple(declared.values()),
            people=people,
            rows=rows,
            values=values,
            seed=secret if secret.startswith(SEEDED) else None,
            experiment=experiment_of(party),
        )
        with open_state(party.site) as state:
            return state.releases.take(request, Budget(party.policy).releases)

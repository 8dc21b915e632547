"""A run's releases, as a stage takes them: from the party's own ledger, budgets and pins."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

import numpy as np

from opboost_ops.config.federation import Federation
from opboost_ops.exchange.party_state import open_state
from opboost_ops.pipeline.runner.expected_cost import choices
from opboost_ops.pipeline.runner.publication import SEEDED, Publisher, experiment_of
from opboost_ops.privacy.declarations import declarations
from opboost_ops.privacy.ledger.budgets import Budget
from opboost_ops.privacy.releases import RunRequest, Taken


@dataclass(frozen=True)
class RunReleases:
    """The releases of a party in a run.

    Attributes:
        party: Whose.
        federation: The plan's.
        run: The run's id.
        day: The plan's day.
    """

    party: Publisher
    federation: Federation
    run: str
    day: date

    def unpinned(self, people: np.ndarray) -> np.ndarray:
        """The people whose values the run must read, bool, shape (n,).

        Args:
            people: Keyed hashes of everybody in the table, uint8, shape (n, 16).

        Raises:
            BudgetError: A release does not fit a budget, or pins are lost.
        """
        with open_state(self.party.site) as state:
            used = choices(state, self.party, self.federation, self.run, self.day)
            return state.releases.unpinned(used.values(), people)

    def take(
        self, people: np.ndarray, rows: np.ndarray, values: Mapping[str, np.ndarray]
    ) -> Mapping[str, Taken]:
        """Charge, pin and record the run's releases; see `Releases.take`.

        Args:
            people: Keyed hashes of everybody in the table, uint8, shape (n, 16).
            rows: The rows whose values were read, rising, shape (m,).
            values: Domain integers of these rows by preprocessed column, shape (m,) each.
        """
        party, federation = self.party, self.federation
        secret = party.site.noise_secret()
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
            return state.releases.take(request, Budget(party.policy))

"""A run's draw, as a stage takes it: by the party's own ledger, budgets and cell states."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from opboost_ops.config.columns import columns_of
from opboost_ops.config.federation import Federation
from opboost_ops.exchange.party_state import open_state
from opboost_ops.mechanisms import noise
from opboost_ops.privacy.budgets import Budget
from opboost_ops.privacy.draws import Drawn, DrawRequest
from opboost_ops.run.publication import Publisher, experiment_of
from opboost_ops.stages.stage import TakeDraw


def drawing(party: Publisher, federation: Federation, run: str) -> TakeDraw:
    """What lets a party's stages take draws in a run.

    Args:
        party: Whose.
        federation: The plan's.
        run: The run's id.
    """

    def take(
        asked: Sequence[DrawRequest], keep: Callable[[Sequence[np.ndarray]], None]
    ) -> Sequence[Drawn]:
        facts: dict[str, Any] = {
            "federation": federation.name,
            "run": run,
            "party": party.name,
            "receiver": federation.label_holder,
            "noise": noise.fingerprint(party.site.noise_secret()),
            "experiment": experiment_of(party),
        }
        features = {c.uuid: c.feature for c in columns_of(federation, party.name)}
        budget = Budget(party.policy, features)
        with open_state(party.site) as state:
            return state.draws.take(asked, facts, budget, keep)

    return take

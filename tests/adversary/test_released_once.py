"""Whatever a federation file and the nights bring, a draw more is a charge more."""

from typing import Any

import pytest

from opboost_ops.exchange.files import narrow_integers
from opboost_ops.pipeline.home import Home
from tests.federation import Workspace
from tests.party_state import state_of

PARTY = "bank"


def spent(workspace: Workspace) -> dict[str, float]:
    with state_of(workspace, PARTY) as state:
        return {column: float(loss) for column, loss in state.releases.spent().items()}


def sent(workspace: Workspace, number: int) -> tuple[int, ...]:
    run = Workspace(workspace.folder, f"{number:016x}")
    run.until("rank", PARTY)
    table = Home(run.home(PARTY)).table("randomised")
    return tuple(narrow_integers(table, "income").tolist())


def test_three_names_of_the_id_are_three_charges(fresh: Workspace) -> None:
    """Another ID column hashes people otherwise: they are somebody new, and charged."""
    draws, costs = [], []
    for number, name in enumerate(("id", "id_2", "id_3"), start=1):
        for party in fresh.declared.parties:
            fresh.edit_table(party, lambda t, n=name: t.rename({t.columns[0]: n}))
        fresh.edit_yaml("federation.yaml", lambda d, n=name: d["id"].update(column=n))
        for party in fresh.declared.parties:

            def mapped(policy: Any, n: str = name) -> None:
                policy.pop("id_column", None)

            fresh.edit_yaml(f"{party}/policy.yaml", mapped)
        draws.append(sent(fresh, number))
        costs.append(spent(fresh)["income"])
    assert costs == pytest.approx([costs[0], 2 * costs[0], 3 * costs[0]])
    assert len(set(draws)) == 3


def test_a_retry_after_a_recovery_sends_nothing(fresh: Workspace) -> None:
    run = Workspace(fresh.folder, f"{1:016x}")
    run.until("seal", PARTY)
    with state_of(fresh, PARTY) as state:
        state.releases.end([release.id for release in state.releases.all()])
    for stage in ("desensitize", "seal"):
        with pytest.raises(Exception, match="has ended") as caught:
            run.step(PARTY, stage)
        assert "Trigger a new run" in str(caught.value)
        if stage == "desensitize":
            run.step(PARTY, "check_release")
    assert f"ranks/{PARTY}" not in run.published()

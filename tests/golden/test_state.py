"""A party goes on from the state that an earlier edition has left."""

from pathlib import Path
from typing import Any

import pytest

from tests.commands import printed_json
from tests.federation import FIRST_RUN, SECOND_RUN
from tests.golden import state
from tests.verifier.ending import assert_promises_held


def test_a_federation_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = state.unpacked(tmp_path)
    workspace.known_to(monkeypatch)

    def charges() -> dict[str, Any]:
        shown = {party: printed_json("ledger", "show", tmp_path / party) for party in state.COLUMNS}
        return {party: ledger["columns"] for party, ledger in shown.items()}

    charged = charges()
    assert {p: tuple(c["feature"] for c in columns) for p, columns in charged.items()} == (
        state.COLUMNS
    )
    assert workspace.registry.champion() == FIRST_RUN
    # By the champion of that edition, and on people whom it has not released.
    summaries = workspace.scoring().all()
    assert summaries["credit.write_scores"]["rows"] > 0
    scored = charges()

    workspace.run = SECOND_RUN
    workspace.all()
    assert charges() == scored
    assert SECOND_RUN in workspace.registry.versions()
    assert_promises_held([tmp_path])

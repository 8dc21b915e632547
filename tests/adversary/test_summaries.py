"""What everybody who sees a run reads of its tasks, beside what each ledger says was disclosed."""

from pathlib import Path

import pytest

from opboost_ops.extras.datasets.generated import NAME, write_lenders
from opboost_ops.pipeline.party.inbox import Run
from opboost_ops.pipeline.runner.exact_disclosures import exact_disclosures_of_run
from opboost_ops.pipeline.runner.opening import open_run
from opboost_ops.pipeline.runner.runner import run_stage
from tests.adversary.kit import EVERYBODY, of_run
from tests.federation import Workspace
from tests.party_state import entries_of

#: What follows from declared files and the plan, or from artifacts that everybody can read.
DECLARED = {
    "champion", "features", "mode", "plan", "published", "ranked", "run", "trees", "version", "why",
}  # fmt: skip


def compared(workspace: Workspace) -> None:
    """Each fact that a task of the present run tells, and the entry that says that it does."""
    workspace.open()
    for step in workspace.steps():
        federation = workspace.declared
        place = Run(federation.name, workspace.run, federation.label_holder)
        told = set(run_stage(step.party, step.stage, place)) - DECLARED
        # A count of splits or of compared columns follows from the labels.
        told_counts = {"splits", "thresholds", "answered", "rows"} & told
        assert workspace.purpose == "score" or not told_counts, str(step)
        entered = ("exact", step.stage, EVERYBODY) in of_run(workspace, step.party)
        assert not told or entered, f"{step} tells {told}, and no ledger entry says so"


@pytest.mark.parametrize("mode", ["desensitised", pytest.param("routed", marks=pytest.mark.slow)])
def test_no_task_tells_a_fact_that_neither_consent_sheet_nor_ledger_discloses(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace.write(tmp_path / "federation", scoring={"mode": mode})
    workspace.known_to(monkeypatch)
    compared(workspace)
    listed = set(exact_disclosures_of_run(workspace.declared))
    for party in workspace.declared.parties:
        for entry in entries_of(workspace, party):
            # Routed answers of a feature are listed with its column.
            if entry.account == "exact" and entry.feature is None and entry.kind != "plan":
                # An answer also says how many people were queried before.
                words = entry.discloses.split(". ")[0]
                assert (party, entry.receiver, words) in listed, entry.kind
    compared(workspace.scoring())


def test_the_active_party_of_horizontal_learning_tells_no_count_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_lenders(tmp_path, rows=300, seed=0, training={"trees": 1, "depth": 1})
    for site in tmp_path.glob("*/site.yaml"):
        monkeypatch.setenv(f"OPBOOST_SITE_{site.parent.name.upper()}", str(site))
    active = Workspace(tmp_path).declared.label_holder
    run = Run(NAME, "0" * 16, active)
    open_run(file, run.run, {})
    told = run_stage(active, "check_table", run)
    assert set(told) <= set(DECLARED)

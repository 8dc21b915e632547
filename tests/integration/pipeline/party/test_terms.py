"""The terms of an agreement end a party's answers, and limit how many there are."""

from datetime import date
from pathlib import Path

import pytest

from opboost_ops.errors import ConfigError, PolicyError
from opboost_ops.pipeline.party import clock
from opboost_ops.pipeline.party.agreement import agree
from tests.federation import FIRST_RUN, SECOND_RUN, Workspace
from tests.integration.pipeline.scoring_data import dataset

HOLDER = "b0"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace.write(tmp_path_factory.mktemp("terms") / "w", dataset("binary"))


def refused(workspace: Workspace, party: str, stage: str) -> str:
    with pytest.raises(PolicyError, match="refused run"):
        workspace.step(party, stage)
    return workspace.reason(party)


def test_after_the_last_day_a_party_answers_nothing(
    written: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = written.copy(tmp_path / "w", FIRST_RUN)
    until = workspace.declared.terms.until
    workspace.open()
    workspace.step(HOLDER, "check_table")
    monkeypatch.setattr(clock, "today", lambda: until)
    workspace.step(HOLDER, "check_drift")
    monkeypatch.setattr(clock, "today", lambda: date(until.year + 1, 1, 1))
    assert f"the agreement was until {until}" in refused(workspace, HOLDER, "digest_ids")
    with pytest.raises(ConfigError, match="terms of credit_scoring ended"):
        agree(workspace.site(HOLDER), workspace.declared)


def test_a_party_takes_part_in_no_more_runs_a_month_than_agreed(
    written: Workspace, tmp_path: Path
) -> None:
    workspace = written.copy(tmp_path / "w", FIRST_RUN)
    workspace.declare("federation.yaml", terms={"runs_per_month": {"train": 1}})
    workspace.open()
    workspace.step(HOLDER, "check_table")
    second = Workspace(workspace.folder, SECOND_RUN)
    with pytest.raises(PolicyError, match="refused run"):
        second.open()
    # A label holder that forgets its runs is refused by the others.
    (workspace.site("a").home / "credit_scoring" / "runs" / "train.json").unlink()
    second.open()
    assert "1 train runs a month are agreed" in refused(second, HOLDER, "check_table")
    # The first goes on.
    workspace.step(HOLDER, "check_drift")

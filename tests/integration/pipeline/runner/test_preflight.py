"""What would stop a run is told before it begins: all at once, with nothing drawn or published."""

import logging
import sys
from collections import namedtuple
from typing import Any

import polars as pl
import pytest

from opboost_ops.config.columns import columns_of
from opboost_ops.config.loading import load_policy, load_site
from opboost_ops.errors import BudgetError, ConfigError, ContractError, OpBoostError, PolicyError
from opboost_ops.pipeline.party import invitations
from opboost_ops.pipeline.party.inbox import Run
from opboost_ops.pipeline.party.local_party import LocalParty
from opboost_ops.pipeline.runner import local
from opboost_ops.pipeline.runner.disk_space import DETAILS, waiting
from opboost_ops.pipeline.runner.opening import open_run
from tests.federation import FIRST_RUN, SECOND_RUN, Workspace
from tests.party_state import entries_of, state_of


def refused(workspace: Workspace, party: str) -> list[str]:
    with state_of(workspace, party) as state:
        return [e.detail for e in state.audit.of("refused") if f"/{workspace.run}/" in e.place]


def least_budget(workspace: Workspace, party: str, feature: str, times: float) -> None:
    """A budget of so many values of a feature."""
    loss = next(r.loss for r in entries_of(workspace, party) if r.feature == feature and r.loss)
    cap = times * float(loss.loss[-1])
    workspace.declare(f"{party}/policy.yaml", features={feature: {"budget": cap}})


def fill_disk(workspace: Workspace, party: str) -> None:
    """Let the party's last run have taken more than any disk has."""
    earlier = Workspace(workspace.folder, FIRST_RUN).home(party)
    with (earlier / "large").open("wb") as file:
        file.truncate(8 << 40)


def released(workspace: Workspace) -> list[str]:
    """What feature holders have published."""
    label_holders = ("plan/", "psi_query/")
    return [name for name in workspace.published() if not name.startswith(label_holders)]


def widen(data: Any) -> None:
    data["parties"]["bank"]["features"]["income"]["bounds"][1] *= 1.001


def test_a_budget_that_a_new_release_exceeds_ends_the_run_at_the_first_task(
    workspace: Workspace,
) -> None:
    least_budget(workspace, "bank", "income", 1.5)
    # Another map is another release.
    workspace.edit_yaml("federation.yaml", widen)
    before = entries_of(workspace, "bank")
    where, error = workspace.first_failure()
    assert where == "bank.check_table"
    assert isinstance(error, BudgetError)
    assert "features.income.budget" in str(error)
    assert entries_of(workspace, "bank") == before
    assert not released(workspace)
    (told,) = refused(workspace, "bank")
    assert "features.income.budget" in told


def test_a_run_that_costs_nothing_is_not_refused(workspace: Workspace) -> None:
    """Nightly, whatever the table has, a budget without room stops nothing."""
    least_budget(workspace, "bank", "income", 0.5)
    workspace.edit_table("bank", lambda t: t.with_columns(t["income"].reverse()))
    workspace.until("rank", "bank")
    assert refused(workspace, "bank") == []


def test_a_yearly_release_that_does_not_fit_goes_on_with_the_newest(
    workspace: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    least_budget(workspace, "bank", "income", 1.5)
    yearly = {"bank": {"features": {"income": {"refresh": "yearly"}}}}
    workspace.declare("federation.yaml", parties=yearly)
    with state_of(workspace, "bank") as state, state.database.writing() as connection:
        connection.exec_driver_sql("UPDATE column_releases SET opened = '2020-02-29'")
    workspace.open()
    with caplog.at_level(logging.WARNING, "opboost_ops"):
        workspace.step("bank", "check_table")
    told = " ".join(record.getMessage() for record in caplog.records)
    assert "income goes on with its release of 2020-02-29" in told
    workspace.until("rank", "bank")


def test_all_that_a_party_lacks_is_told_at_once(workspace: Workspace) -> None:
    least_budget(workspace, "bank", "income", 1.5)
    workspace.edit_yaml("federation.yaml", widen)
    fill_disk(workspace, "bank")
    workspace.declare("federation.yaml", parties={"bank": {"signing_key_expires": "2020-02-29"}})
    workspace.open()
    # After the plan, so that the party's first task is where it is noticed.
    key = workspace.site("bank").encryption_key
    key.write_bytes((workspace.folder / "shop" / "keys" / "encryption.key").read_bytes())
    before = entries_of(workspace, "bank"), len(workspace.published())
    with pytest.raises(BudgetError) as caught:
        workspace.step("bank", "check_table")
    text = str(caught.value)
    assert f"4 problems block run {SECOND_RUN} of credit_scoring at bank" in text
    assert "has expired on 2020-02-29" in text and "opboost keys renew" in text
    assert "The encryption key encryption.key is not the one" in text
    assert "features.income.budget" in text
    assert "too little disk space in its home" in text
    assert (entries_of(workspace, "bank"), len(workspace.published())) == before
    # How much there is follows from private tables, and stays at home.
    assert "MB" not in text
    assert "MB are free" in (workspace.home("bank") / DETAILS).read_text()


def test_the_label_holders_expired_key_opens_no_run(workspace: Workspace) -> None:
    workspace.declare("federation.yaml", parties={"credit": {"signing_key_expires": "2020-02-29"}})
    where, error = workspace.first_failure()
    assert where == "open_run"
    assert "has expired on 2020-02-29" in str(error)
    assert workspace.published() == []


def test_a_disk_that_cannot_hold_what_is_sorted_is_told_before_the_first_byte(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = sum(path.stat().st_size for path in workspace.folder.rglob("*") if path.is_file())
    free += 8_000_000
    monkeypatch.setattr(
        "opboost_ops.pipeline.runner.disk_space.shutil.disk_usage",
        lambda _: namedtuple("R", "total free")(2**50, free),
    )
    workspace.open()
    site = workspace.folder / "bank" / "site.yaml"
    # All but the last row are held in memory; of all rows the disk cannot hold the keys.
    rows = pl.read_parquet(workspace.table_path("bank")).height
    monkeypatch.setattr("opboost_ops.pipeline.runner.disk_space._POINTS", free)
    for held, short in ((rows - 1, True), (rows, False)):
        workspace.declare("bank/site.yaml", block_rows=held)
        assert f"block_rows: {held}" in site.read_text()
        if short:
            with pytest.raises(ContractError, match="too little disk space in its") as caught:
                workspace.step("bank", "check_table")
            assert "MB" not in str(caught.value)
            told = (workspace.home("bank") / DETAILS).read_text()
            assert "what waits while people are sorted" in told
            assert not list(workspace.home("bank").glob("quality/*"))
        else:
            workspace.step("bank", "check_table")


def test_what_waits_follows_from_rows_and_columns(workspace: Workspace) -> None:
    workspace.declare("credit/site.yaml", block_rows=1)
    federation = workspace.declared
    folder = workspace.folder / "credit"
    site, policy = load_site(folder / "site.yaml"), load_policy(folder / "policy.yaml")
    party = LocalParty("credit", site, policy, workspace.store)
    rows = pl.read_parquet(folder / "tables" / "train.parquet").height
    columns = len(federation.parties["credit"].features) + 1
    columns += sum(len(columns_of(federation, holder)) for holder in federation.feature_holders)
    assert waiting(party, federation, "train") == rows * (3 * 192 + 24 * columns)


def test_a_refused_plan_is_told_nothing_else(workspace: Workspace) -> None:
    least_budget(workspace, "bank", "income", 0.5)
    fill_disk(workspace, "bank")
    workspace.open()
    workspace.edit_yaml("bank/policy.yaml", lambda p: p["features"].pop("income"))
    with pytest.raises(PolicyError) as caught:
        workspace.step("bank", "check_table")
    text = str(caught.value)
    assert "bank refused run" in text
    assert "too little disk space" not in text and "income" not in text
    assert not (workspace.home("bank") / DETAILS).exists()
    assert caught.value.notice == "agreement_needed"


def test_the_label_holder_is_told_all_before_a_plan_is_published(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_disk(workspace, "credit")
    monkeypatch.setitem(sys.modules, "distributed", None)
    workspace.declare("credit/site.yaml", dask="tcp://127.0.0.1:8786")
    problems = [ConfigError("no slots"), ConfigError("no worker of bank_queue")]
    with pytest.raises(OpBoostError) as caught:
        open_run(workspace.file, workspace.run, {}, "train", problems)
    text = str(caught.value)
    assert "4 problems block" in text
    for told in ("no slots", "no worker of bank_queue",
                 "Dask is not installed", "too little disk space"):  # fmt: skip
        assert told in text, told
    assert workspace.published() == []


def test_in_an_airflow_of_its_own_a_party_is_told_when_it_joins(workspace: Workspace) -> None:
    least_budget(workspace, "bank", "income", 1.5)
    workspace.edit_yaml("federation.yaml", widen)
    workspace.open()
    run = Run("credit_scoring", workspace.run, "credit")
    with pytest.raises(BudgetError, match=r"(?s)2 problems.*no slots.*income"):
        invitations.join("bank", run, "train", [ConfigError("no slots")])
    assert len(refused(workspace, "bank")) == 1
    assert not released(workspace)


def test_without_airflow_all_parties_are_told_at_once(workspace: Workspace) -> None:
    least_budget(workspace, "bank", "income", 1.5)
    workspace.edit_yaml("federation.yaml", widen)
    fill_disk(workspace, "shop")
    published = sorted(workspace.store.list("credit_scoring"))
    with pytest.raises(
        BudgetError,
        match=r"(?s)2 problems.*shop has too little disk.*income|income.*shop has too little disk",
    ):
        local.run_federation(workspace.file, {})
    assert sorted(workspace.store.list("credit_scoring")) == published
    with state_of(workspace, "bank") as state:
        assert len(state.audit.of("refused")) == 1

"""Retraining when all tables have changed: the DAG that looks, its assets, and its answers."""

import hashlib
from pathlib import Path

import polars as pl
import pytest
from airflow.serialization.serialized_objects import DagSerialization

from opboost_ops.errors import ConfigError, ContractError, PolicyError
from opboost_ops.pipeline.party import own_table
from opboost_ops.pipeline.party.agreement import withdraw
from tests.dags.conftest import NAMES, declare
from tests.federation import Workspace
from tests.party_state import entries_of


def test_without_on_tables_there_is_no_such_dag(federations: Path) -> None:
    assert set(declare(federations, schedule={"cron": "0 3 * * *"})) == NAMES


@pytest.mark.parametrize("cron", [None, "0 3 * * *"])
def test_training_waits_for_all_tables(federations: Path, cron: str | None) -> None:
    timed = {"cron": cron} if cron else {}
    made = declare(federations, schedule={"on_tables": "*/5 * * * *", **timed})
    assert set(made) == {"credit_scoring_tables", *NAMES}
    tables = made["credit_scoring_tables"]
    outlets = {t.task_id: t.outlets[0].name for t in tables.tasks}
    parties = ("credit", "shop", "bank")
    trains = {f"{p}_table": f"credit_scoring_{p}_table" for p in parties}
    scores = {f"{p}_new_rows": f"credit_scoring_{p}_new_rows" for p in parties}
    assert outlets == trains | scores
    assert tables.max_active_runs == 1
    serialized = str(DagSerialization.to_dict(made["credit_scoring_train"]))
    assert all(name in serialized for name in trains.values())
    assert ("CronTriggerTimetable" in serialized) is (cron is not None)
    serialized = str(DagSerialization.to_dict(made["credit_scoring_score"]))
    assert all(name in serialized for name in [*scores.values(), "credit_scoring_champion"])
    for dag in made.values():
        DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))


def test_what_is_no_cron_expression_is_said(federations: Path) -> None:
    for dag in declare(federations, schedule={"on_tables": "now and then"}).values():
        assert "invalid" in dag.tags
        assert "schedule.on_tables" in str(dag.doc_md)


def test_a_change_is_told_once_and_a_retry_tells_it_again(workspace: Workspace) -> None:
    assert own_table.changed("bank", "credit_scoring", "look 1") is True
    assert own_table.changed("bank", "credit_scoring", "look 1") is True
    assert own_table.changed("bank", "credit_scoring", "look 2") is False
    workspace.edit_table("bank", lambda table: table.head(300))
    assert own_table.changed("bank", "credit_scoring", "look 3") is True
    assert own_table.changed("bank", "credit_scoring", "look 4") is False
    told = [r.kind for r in entries_of(workspace, "bank")].count("look_at_table")
    assert told == 2


def test_what_is_kept_tells_nothing_of_the_table(workspace: Workspace) -> None:
    own_table.changed("bank", "credit_scoring", "look 1")
    plain = hashlib.sha256(workspace.table_path("bank").read_bytes()).hexdigest()
    kept = workspace.folder / "bank" / "home" / "credit_scoring" / "table_version.json"
    assert plain not in kept.read_text()
    assert kept.stat().st_mode & 0o077 == 0


def test_a_table_that_is_not_there(workspace: Workspace) -> None:
    workspace.table_path("bank").unlink()
    with pytest.raises(ContractError, match="cannot be read"):
        own_table.changed("bank", "credit_scoring", "look")
    workspace.edit_yaml("bank/site.yaml", lambda site: site["tables"].clear())
    with pytest.raises(ConfigError, match="names no table for credit_scoring"):
        own_table.changed("bank", "credit_scoring", "look")


def test_a_table_that_is_written_anew_with_the_same_content_has_not_changed(
    workspace: Workspace,
) -> None:
    """The table watch told the order, the compression and the number of files."""
    assert own_table.changed("bank", "credit_scoring", "look 1") is True
    workspace.edit_table("bank", lambda table: table.sample(fraction=1, shuffle=True, seed=9))
    assert own_table.changed("bank", "credit_scoring", "look 2") is False
    workspace.edit_table("bank", lambda table: table.with_columns(undeclared=pl.lit("anything")))
    assert own_table.changed("bank", "credit_scoring", "look 3") is False
    workspace.edit_table("bank", lambda table: table.with_columns(income=pl.col("income") + 1))
    assert own_table.changed("bank", "credit_scoring", "look 4") is False
    workspace.let_join("bank")
    assert own_table.changed("bank", "credit_scoring", "look 5") is True


@pytest.mark.parametrize("column", ["id", "age", "default"])
def test_each_agreed_column_is_watched(workspace: Workspace, column: str) -> None:
    """The label is, too."""
    label = workspace.declared.parties["credit"].label
    assert label is not None
    name = label.column if column == "default" else column
    assert own_table.changed("credit", "credit_scoring", "look 1") is True
    workspace.edit_table("credit", lambda t: t.with_columns(pl.col(name).reverse()))
    assert own_table.changed("credit", "credit_scoring", "look 2") is True


def test_a_party_that_has_withdrawn_does_not_tell_that_its_table_changed(
    workspace: Workspace,
) -> None:
    assert own_table.changed("bank", "credit_scoring", "look 1")
    withdraw(workspace.site("bank"), 1)
    with pytest.raises(PolicyError, match="bank has not agreed to credit_scoring"):
        own_table.changed("bank", "credit_scoring", "look 2")

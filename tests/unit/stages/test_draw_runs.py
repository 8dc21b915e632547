"""Whole runs and their draws: overlapping runs, forgetting, rotation."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from opboost_ops.errors import ContractError
from opboost_ops.exchange.encoding import narrow_integers
from opboost_ops.exchange.party_state import PartyState
from opboost_ops.stages.stage import Home
from tests.commands import opboost, printed, printed_json
from tests.federation import Workspace, small_credit
from tests.party_state import state_of

PARTY, OVERLAPPING = "bank", 8


def people_of(state: PartyState) -> set[int]:
    """How many people each cell state has."""
    states = [state.cells.load(*place) for place in state.cells.generations()]
    return {len(state.people) for state in states if state is not None}


def capped(workspace: Workspace, most: int) -> None:
    def cap(policy: dict[str, Any]) -> None:
        for rule in policy["features"].values():
            rule["max_changes"] = most
            # Here it is the cap that holds, not a budget.
            for name in ("budget_1", "budget_whole"):
                rule.pop(name, None)

    workspace.edit_yaml(f"{PARTY}/policy.yaml", cap)


def rolled(workspace: Workspace) -> None:
    """Everybody's income is somebody else's."""
    workspace.edit_table(
        PARTY, lambda t: t.with_columns(pl.col("income").shift(7, fill_value=t["income"][0]))
    )


@pytest.fixture
def small(tmp_path: Path) -> Workspace:
    return Workspace.write(tmp_path / "federation", small_credit(rows=120))


def test_overlapping_runs_release_no_more_than_the_cap(small: Workspace) -> None:
    """Eight runs are prepared on eight tables, and only then published: one value of each cell."""
    capped(small, 1)
    runs = []
    for number in range(OVERLAPPING):
        run = Workspace(small.folder, f"{number + 1:016x}")
        run.until("rank", PARTY)
        runs.append((run, small.table_path(PARTY).read_bytes()))
        rolled(small)
    wanted, released = [], []
    for run, table in runs:
        # A run ends with the table that it began with.
        small.table_path(PARTY).write_bytes(table)
        for stage in ("rank", "check_release", "seal"):
            run.step(PARTY, stage)
        home = Home(run.home(PARTY))
        wanted.append(narrow_integers(home.table("preprocessed"), "income"))
        released.append(narrow_integers(home.table("held"), "income"))
    assert all((wanted[0] != other).mean() > 0.5 for other in wanted[1:])
    assert all((released[0] == other).all() for other in released)
    with state_of(small, PARTY) as state:
        lines = state.ledger.releases()
        assert state.ledger.uncommitted() == []
    assert [line.draw.worst for line in lines if line.draw and line.feature == "income"] == [1]
    shown = printed_json("ledger", "show", small.folder / PARTY, "--people")
    (income,) = (c for c in shown["columns"] if c["feature"] == "income")
    assert (income["worst_values"], income["frozen"], income["max_changes"]) == (1, True, 1)


def test_an_integer_id_is_forgotten_without_being_told_so(small: Workspace) -> None:
    whole = {"credit", "shop", PARTY}
    for party in whole:
        small.edit_table(
            party, lambda t: t.with_columns(pl.col("id").hash().mod(10**9).cast(pl.Int64))
        )
    small.declare("federation.yaml", id={"type": "integer"})
    agree(small)
    small.until("rank", PARTY)
    people = pl.read_parquet(small.table_path(PARTY))["id"]
    person = people.min()
    said = printed("forget", small.folder / PARTY, str(person))
    assert f"{PARTY} forgot the person" in said
    assert "Nobody of this ID" not in said
    with state_of(small, PARTY) as state:
        assert people_of(state) == {len(people) - 1}
    unknown = printed("forget", small.folder / PARTY, "123456789012")
    assert "Nobody of this ID is known" in unknown
    assert "forgot the person" not in unknown


def agree(workspace: Workspace) -> None:
    for party in workspace.declared.parties:
        words = ("agree", workspace.folder / party, workspace.file)
        digest = printed_json(*words)["digest"]
        printed(*words, "--yes", digest)


def test_former_secrets_count_for_people_and_are_forgotten(small: Workspace) -> None:
    """Two draws under two secrets: a person is charged both, and leaves the cells of both."""
    small.until("rank", PARTY)
    site = small.folder / PARTY
    once = printed_json("ledger", "show", site, "--people")["people"]
    # All of them: a seeded secret beside a drawn one would be an experiment beside none.
    for party in small.declared.parties:
        printed("keys", "rotate", small.folder / party, "--yes")
    again = Workspace(small.folder, "0" * 15 + "2")
    again.until("rank", PARTY)
    twice = printed_json("ledger", "show", site, "--people")["people"]
    assert twice["loss_whole"] == pytest.approx(2 * once["loss_whole"])
    ids = set(pl.read_parquet(small.table_path("credit"))["id"])
    for party in ("shop", PARTY):
        ids &= set(pl.read_parquet(small.table_path(party))["id"])
    columns = len(once["columns"])
    said = printed("forget", site, min(ids))
    assert f"{2 * columns} cell states were removed" in said
    # A former secret that is gone leaves states that nobody can tie to a person: that is said.
    for kept in (site / "keys").glob("noise.secret.until-*"):
        kept.unlink()
    assert "no longer beside the present one" in printed("forget", site, max(ids))


def test_lost_states_are_reported_and_charged(small: Workspace) -> None:
    capped(small, 2)
    small.until("rank", PARTY)
    site = small.folder / PARTY
    for path in (site / "cells").glob("*.parquet"):
        path.unlink()
    rolled(small)
    again = Workspace(small.folder, "0" * 15 + "2")
    step, error = again.first_failure()
    # Before its first task, and so before anything is published.
    assert step == f"{PARTY}.check_table"
    assert "refused run" in str(error)
    assert "opboost ledger recover" in again.reason(PARTY)
    for words in (("ledger", "check"), ("ledger", "recover")):
        code, *said = opboost(*words, site)
        assert code == 1
        assert "cells lacks the state of income" in " ".join(" ".join(said).split())
    said = printed("check", small.file, fails=True)
    assert "the cell state of income is lost" in " ".join(said.split())
    printed("ledger", "recover", site, "--yes")
    shown = printed_json("ledger", "show", site)["columns"]
    assert {line["worst_values"] for line in shown if line["feature"] == "income"} == {3}
    assert "has lost nothing" in printed("ledger", "recover", site)
    again.until("rank", PARTY)


@pytest.mark.parametrize("stage", ["desensitize", "seal"])
def test_a_secret_replaced_in_the_middle_of_a_run_draws_nothing(stage: str, tmp_path: Path) -> None:
    """Keys of people are of the old secret: each person would get a second draw, uncharged."""
    small = Workspace.write(tmp_path / "federation", small_credit(rows=120), seed=None)
    capped(small, 1)
    small.until(stage, PARTY)
    printed("keys", "rotate", small.folder / PARTY, "--yes")
    with pytest.raises(ContractError, match="was replaced since this run read its table"):
        small.step(PARTY, stage)
    again = Workspace(small.folder, "0" * 15 + "2")
    again.until("rank", PARTY)
    with state_of(small, PARTY) as state:
        people = people_of(state)
        drawn = {line.run for line in state.ledger.releases() if line.draw is not None}
    assert people == {again.home_json(PARTY, "table")["rows"]}
    # What was drawn before under the old secret stays charged; under the new one, this run alone.
    assert drawn == ({again.run} if stage == "desensitize" else {small.run, again.run})

"""What commands show: JSON of `check`, the card, a dry run, and tables in a pipe."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from opboost_ops.api import models
from tests.federation import Workspace
from tests.integration.cli.conftest import Opboost


def test_check_as_json(workspace: Workspace, opboost: Opboost) -> None:
    done = opboost("check", workspace.file, "--json")
    said = json.loads(done.output)
    assert (said["faults"], said["lacking"]) == ([], {})
    assert {line["party"] for line in said["leaves"]} == {"bank", "shop"}
    assert any(line["receiver"] == "everyone who sees the run" for line in said["exact"])
    workspace.edit_yaml(
        "federation.yaml",
        lambda d: d["parties"]["bank"]["features"]["balance"].update(bounds=[0, 1000]),
        agree=False,
    )
    done = opboost("check", workspace.file, "--json")
    assert done.code == 1
    assert set(json.loads(done.out)["lacking"]) == {"credit", "shop", "bank"}


def test_a_version_is_shown_for_people_and_for_programs(
    workspace: Workspace, opboost: Opboost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "900")
    found = models(workspace.file)
    (version,) = found.versions["version"].to_list()
    command = ("models", "show", workspace.folder / "credit", version)
    card = json.loads(opboost(*command, "--json").output)
    assert card["run"] == version
    shown = opboost(*command).output
    assert not shown.startswith("{")
    for feature in card["features"]:
        assert feature["name"] in shown


def test_a_dry_run_writes_nothing(tmp_path: Path, opboost: Opboost) -> None:
    pl.DataFrame({"id": range(40), "income": range(40)}).write_parquet(tmp_path / "bank.parquet")
    given = ("--party", "bank", "--table", tmp_path / "bank.parquet", "--id", "id", "--dry-run")
    said = opboost("init", tmp_path / "bank", *given).output
    assert "# policy.yaml" in said and "# bank-offer.yaml" in said and "income" in said
    assert "Nothing was written" in said
    assert [path.name for path in tmp_path.iterdir()] == ["bank.parquet"]


def test_a_table_in_a_pipe_is_as_wide_as_it_is(workspace: Workspace) -> None:
    command = [str(Path(sys.executable).parent / "opboost"), "models", "list"]
    done = subprocess.run(
        [*command, str(workspace.folder / "credit")],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin"},
    )
    (version,) = models(workspace.file).versions["version"].to_list()
    lines = [line for line in done.stdout.splitlines() if version in line]
    assert "champion" in lines[0] and "4 trees, depth 3" in lines[0]
    assert "the first model" in lines[1]


@pytest.mark.parametrize("command", ["check", "plan"])
def test_check_and_plan_show_it_at_home(
    workspace: Workspace,
    opboost: Opboost,
    command: str,
) -> None:
    incomes = np.exp(np.random.default_rng(1).normal(7.7, 0.4, 4000))
    workspace.edit_table("bank", lambda t: t.with_columns(income=pl.Series(incomes[: t.height])))

    def crowd(data: Any) -> None:
        # A logarithm of the distance from 300 leaves most of the domain empty.
        income = data["parties"]["bank"]["features"]["income"]
        income.update(bounds=[300, 8000], scale="log1p")

    workspace.edit_yaml("federation.yaml", crowd)
    more = ["--party", "bank", "--max-loss-1", "1"] if command == "plan" else []
    done = opboost(command, workspace.file, *more)
    assert "How the rows of bank fill the domain (stays at home)" in done.out
    assert "income" in done.out and "Declare scale: " in done.out

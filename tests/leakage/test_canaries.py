"""Values planted in every raw column and ID of every party appear nowhere outside that party."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from opboost_ops.config.loading import load_federation
from opboost_ops.pipeline.catalogue import STAGES
from tests.leakage.canaries import NAME, NEW_ROWS, PARTIES, Canaries, plant
from tests.leakage.failing_stage import HORIZONTAL, planned

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def canaries(tmp_path_factory: pytest.TempPathFactory) -> Canaries:
    return plant(tmp_path_factory.mktemp("leakage") / "parties")


@pytest.mark.slow
def test_through_airflow_whole_and_failing_in_each_stage(
    canaries: Canaries, tmp_path: Path
) -> None:
    outside = tmp_path / "airflow"
    outside.mkdir()
    federation = load_federation(canaries.federation)
    values = {party: canaries.one_of_each(party) for party in PARTIES}
    failures = planned(federation, values)
    (tmp_path / "failures.json").write_text(json.dumps(failures))
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(outside),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "docs" / "examples")]),
        "OPBOOST_NOTIFIERS": "notifiers:NOTIFIERS",
        "NOTIFICATIONS_FILE": str(outside / "told.jsonl"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "OPBOOST_FEDERATIONS": str(canaries.root),
        **{f"OPBOOST_SITE_{party.upper()}": str(p) for party, p in canaries.sites.items()},
    }
    driver = [str(Path(__file__).with_name("run_dag.py")), str(tmp_path / "failures.json")]
    result = tmp_path / "states.json"
    with (outside / "output.log").open("wb") as log:
        for command in (
            ["-m", "airflow", "db", "migrate"],
            [*driver, str(result), str(canaries.root / "bank" / "policy.yaml")],
        ):
            subprocess.run(
                [sys.executable, *command],
                env=environment,
                cwd=outside,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
    assert result.exists(), (outside / "output.log").read_text()[-3000:]
    states = json.loads(result.read_text())
    assert states.pop(f"{NAME}_train") == "success"
    assert states.pop(f"{NAME}_score") == "success"
    assert states.pop("bank over budget") == "failed bank_release.check_table"
    assert set(states) == set(STAGES) - HORIZONTAL
    for name, state in states.items():
        assert state == f"failed {failures[name][1]}"
    # Training rows and new rows were answered for, and scored, where the search looks.
    kinds = {path.parent.name for path in (canaries.root / "exchange").rglob("shop")}
    assert {"psi_answer", "shares", "ranks", "values", "routes", "split_values"} <= kinds
    (scores,) = (canaries.root / "bureau" / "scores").rglob("*.parquet")
    assert pl.read_parquet(scores).height == NEW_ROWS
    # What went wrong is told outside in words of ours, and at home in full.
    assert b"failed unexpectedly (ComputeError)" in (outside / "output.log").read_bytes()
    kept = list((canaries.root / "shop" / "home" / NAME).glob("*/errors/reason.txt"))
    assert any("conversion failed" in path.read_text() for path in kept)
    told = [json.loads(line) for line in (outside / "told.jsonl").read_text().splitlines()]
    # The example's e-mail finds no server here: it fails, and nothing else does.
    assert b"the notifier SmtpNotifier of failure failed" in (outside / "output.log").read_bytes()
    assert [(entry["event"], entry["party"], entry["stage"]) for entry in told] == [
        ("refused_budget", "bank", "check_table"),
        ("champion_changed", "bureau", "register"),
        *(("failure", failures[name][2], name) for name in states),
    ]
    assert "would exceed a privacy budget of bank" in told[0]["message"]
    assert "0.001" not in told[0]["message"], "a cap of the policy stays at home"
    assert canaries.outside(outside) == []


@pytest.mark.parametrize("table_of", ["train", "score"])
@pytest.mark.parametrize("party", PARTIES)
def test_the_search_can_fail(canaries: Canaries, tmp_path: Path, party: str, table_of: str) -> None:
    table = pl.read_parquet(canaries.root / party / "tables" / f"{table_of}.parquet")
    for column in table.columns:
        value = table[column][7]
        leaks = {
            "text": f"error at {value}.".encode(),
            "json": json.dumps({"rows": [value]}, default=str).encode(),
            "type": f"is of type {table[column].dtype}".encode(),
        }
        if not isinstance(table[column].dtype, pl.Enum | pl.List | pl.Struct) or column == "nested":
            del leaks["type"]
        if isinstance(value, float):
            leaks["bytes"] = b"x" * 13 + np.float64(value).tobytes() + b"y"
        for name, leak in leaks.items():
            path = tmp_path / f"{party}-{column}-{name}.log"
            path.write_bytes(leak)
            assert canaries.found_in(path.parent), f"{name} of {column} is not found"
            path.unlink()
        table.select(column).write_parquet(tmp_path / "leak.parquet", compression="zstd")
        assert canaries.found_in(tmp_path)
        (tmp_path / "leak.parquet").unlink()
    assert canaries.outside(tmp_path) == []

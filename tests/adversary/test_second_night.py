"""What changes of people who have pins, and what is held out, shows nowhere outside the party."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from opboost_ops.errors import ConfigError
from opboost_ops.pipeline.party.inbox import Run
from opboost_ops.pipeline.runner.runner import run_stage
from tests.federation import SECOND_RUN, Workspace, small_credit
from tests.integration.pipeline.scoring_data import dataset

Change = Callable[[pl.DataFrame], pl.DataFrame]

CHANGES: dict[str, Change] = {
    "a value changes": lambda t: t.with_columns(
        pl.when(pl.int_range(pl.len()) == 7).then(0).otherwise("income").alias("income")
    ),
    "a value breaks a check": lambda t: t.with_columns(pl.lit("zq7canary").alias("overdrafts")),
    "values are missing": lambda t: t.with_columns(pl.lit(None, pl.Float64).alias("balance")),
    "all values drift": lambda t: t.with_columns(pl.col("income") * 5, pl.col("debt_ratio") / 9),
    "a column is gone": lambda t: t.drop("debt_ratio"),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A federation after its first run; its draws are seeded, so that a run can be repeated."""
    workspace = Workspace.write(
        tmp_path_factory.mktemp("nights") / "w",
        small_credit(rows=60, without="shop"),
        training={"trees": 2, "depth": 2},
    )
    workspace.all()
    return workspace


def outside(workspace: Workspace) -> dict[str, Any]:
    """What a run shows outside its parties: the results of its tasks, and its artifacts."""
    workspace.open()
    seen: dict[str, Any] = {}
    with workspace.known():
        run = Run(workspace.declared.name, workspace.run, workspace.declared.label_holder)
        for step in workspace.steps():
            seen[str(step)] = run_stage(step.party, step.stage, run)
    return seen | workspace.files("exchange", workspace.declared.name, workspace.run)


@pytest.fixture(scope="module")
def unchanged(trained: Workspace, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return outside(trained.copy(tmp_path_factory.mktemp("unchanged") / "w", SECOND_RUN))


@pytest.mark.parametrize("name", CHANGES)
def test_values_of_people_who_have_pins_leave_no_trace(
    name: str, trained: Workspace, unchanged: dict[str, Any], tmp_path: Path
) -> None:
    changed = trained.copy(tmp_path / "w", SECOND_RUN)
    changed.edit_table("bank", CHANGES[name])
    seen = outside(changed)
    assert [place for place in unchanged if seen[place] != unchanged[place]] == []
    assert set(seen) == set(unchanged)


def test_a_word_among_the_numbers_of_a_csv_leaves_no_trace(tmp_path: Path) -> None:
    workspace = Workspace.write(
        tmp_path / "w", small_credit(rows=60, without="shop"), training={"trees": 2, "depth": 2}
    )
    bank = pl.read_parquet(workspace.table_path("bank"))
    bank.write_csv(workspace.folder / "bank" / "people.csv")
    workspace.declare("bank/site.yaml", tables={"credit_scoring": {"train": "people.csv"}})
    workspace.all()
    same, changed = (workspace.copy(tmp_path / name, SECOND_RUN) for name in ("same", "changed"))
    word = pl.when(pl.int_range(pl.len()) == 7).then(pl.lit("zq7canary"))
    words = bank.with_columns(word.otherwise(pl.col("income").cast(pl.String)).alias("income"))
    words.write_csv(changed.folder / "bank" / "people.csv")
    assert outside(changed) == outside(same)


@pytest.mark.slow
def test_no_count_tells_how_many_rows_are_held_out(tmp_path: Path) -> None:
    """Another share is held out: nothing of a feature holder's part of the run differs."""
    written = Workspace.write(
        tmp_path / "w",
        dataset("regression"),
        training={"trees": 4, "depth": 2},
        scoring={"mode": "routed"},
    )
    counts, held_out = [], set()
    for number in range(3):
        workspace = written.copy(tmp_path / str(number), f"{number + 1:016x}")
        workspace.declare("federation.yaml", training={"holdout": 0.1 * (number + 1)})
        summaries = workspace.all()
        manifests = [workspace.artifact("routes", holder).manifest for holder in ("b0", "b1")]
        holders = {step: told for step, told in summaries.items() if not step.startswith("a.")}
        rows = {step: told.get("rows") for step, told in holders.items()}
        counts.append(([manifest.rows for manifest in manifests], rows))
        held_out.add(summaries["a.evaluate"]["rows"])
    assert counts[0] == counts[1] == counts[2]
    assert len(held_out) > 1


def test_several_epsilons_of_a_column_cannot_be_declared(
    trained: Workspace, tmp_path: Path
) -> None:
    several = [0.5, 1.0, 2.0, 4.0]
    ways: tuple[dict[str, Any], ...] = (
        {"epsilons": several},
        {"parties": {"bank": {"features": {"income": {"mechanism": {"epsilon": several}}}}}},
        {"parties": {"bank": {"features": {"income": {"mechanism": {"epsilons": several}}}}}},
    )
    for number, way in enumerate(ways):
        workspace = trained.copy(tmp_path / str(number), SECOND_RUN)
        workspace.declare("federation.yaml", agree=False, **way)
        assert "0.5" in yaml.safe_dump(yaml.safe_load(workspace.file.read_text()))
        with pytest.raises(ConfigError, match="epsilon"):
            _ = workspace.declared

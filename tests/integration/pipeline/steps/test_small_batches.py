"""New rows are judged row by row: one person can be scored, two, ten and a hundred thousand."""

from pathlib import Path

import polars as pl
import pytest

from opboost_ops.config.policy import Checks
from opboost_ops.quality import suites
from opboost_ops.quality.checks import tightened
from tests.federation import SCORING_RUN, Workspace
from tests.integration.pipeline.scoring_data import HOLDERS, score_files, scoring
from tests.unit.quality.test_suites import IDS, PARTY


def only(workspace: Workspace, people: list[str]) -> None:
    """Leave these people alone in all tables of new rows."""
    for name in ("a", *HOLDERS):
        folder = workspace.folder / name / "tables"
        table = pl.read_parquet(folder / "train.parquet")
        table = table.drop("y") if "y" in table.columns else table
        table.filter(pl.col("id").is_in(people)).write_parquet(folder / "score.parquet")


def common(workspace: Workspace) -> list[str]:
    files = [workspace.folder / p / "tables" / "train.parquet" for p in ("a", *HOLDERS)]
    return sorted(set.intersection(*(set(pl.read_parquet(file)["id"]) for file in files)))


@pytest.mark.parametrize(("mode", "rows"), [("desensitised", 2), ("routed", 1)])
def test_few_people_get_scores(toys_once: Workspace, tmp_path: Path, mode: str, rows: int) -> None:
    workspace = toys_once.copy(tmp_path / "few", SCORING_RUN)
    people = common(workspace)[:rows]
    only(workspace, people)
    scoring(workspace, mode, SCORING_RUN).all()
    (file,) = score_files(workspace)
    assert sorted(pl.read_parquet(file)["id"]) == people


def test_one_person_whose_values_are_missing_gets_a_score(
    toys_once: Workspace, tmp_path: Path
) -> None:
    """All of a column is missing then, which says nothing of one row."""
    workspace = toys_once.copy(tmp_path / "gap", SCORING_RUN)
    only(workspace, common(workspace)[:1])
    path = workspace.folder / "b0" / "tables" / "score.parquet"
    # Written by a program that has seen no value of it, the column has no type.
    pl.read_parquet(path).with_columns(w=pl.lit(None)).write_parquet(path)
    scoring(workspace, "desensitised", SCORING_RUN).all()
    assert len(score_files(workspace)) == 1


def test_what_each_row_must_be_is_asked_of_one_row_too(
    toys_once: Workspace, tmp_path: Path
) -> None:
    workspace = toys_once.copy(tmp_path / "twice", SCORING_RUN)
    only(workspace, common(workspace)[:1])
    path = workspace.folder / "a" / "tables" / "score.parquet"
    table = pl.read_parquet(path)
    pl.concat([table, table]).write_parquet(path)
    step, error = scoring(workspace, "desensitised", SCORING_RUN).first_failure()
    assert step == "a.check_table"
    assert "raw_table" in str(error)


def test_shares_are_judged_where_they_mean_something() -> None:
    few, many = (
        suites.new_rows(PARTY, IDS, Checks(), rows)
        for rows in (suites.FEWEST_FOR_SHARES - 1, suites.FEWEST_FOR_SHARES)
    )
    assert set(few.parameters.values()) == {1.0}
    assert set(many.parameters.values()) == {0.5, 0.05}
    assert [each.absent for each in many.columns if each.column == "y"] == [True]


def test_new_rows_may_be_expected_to_be_other_than_the_training_table(tmp_path: Path) -> None:
    more = "[{type: expect_column_values_to_be_between, kwargs: {column: rows, min_value: %d}}]"
    suite = suites.new_rows(PARTY, IDS, Checks(), 1)
    file = tmp_path / "expectations.yaml"
    file.write_text(f"raw_table: {more % 1000}\n")
    assert tightened(suite, tmp_path, "raw_table").own[-1]["kwargs"]["min_value"] == 1000
    file.write_text(f"raw_table: {more % 1000}\nnew_rows: {more % 1}\n")
    assert tightened(suite, tmp_path, "raw_table").own[-1]["kwargs"]["min_value"] == 1

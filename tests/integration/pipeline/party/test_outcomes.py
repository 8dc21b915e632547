"""Outcomes: joined at home, reported in figures, and refused where they are wrong."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from opboost_ops import api
from opboost_ops.errors import ContractError
from opboost_ops.learning.metrics import all_metrics
from opboost_ops.reports.display.blocks import Table
from opboost_ops.reports.outcomes import outcome_blocks
from tests.commands import printed
from tests.federation import FIRST_RUN, Workspace
from tests.integration.pipeline.scoring_data import NAME, dataset, score_files


@pytest.fixture(
    scope="module",
    params=[
        "binary",
        pytest.param("multiclass", marks=pytest.mark.slow),
        pytest.param("regression", marks=pytest.mark.slow),
    ],
)
def scored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A version whose label holder has scored new rows, in mode local."""
    workspace = Workspace.write(
        tmp_path_factory.mktemp("outcomes") / "federation",
        dataset(request.param),
        training={"trees": 6, "depth": 3},
        scoring={"mode": "local"},
    )
    with workspace.known():
        workspace.all()
        workspace.scoring().all()
    return workspace


def task_of(workspace: Workspace) -> str:
    label = workspace.declared.parties["a"].label
    assert label is not None
    return label.task


def known(workspace: Workspace) -> pl.DataFrame:
    """IDs and labels of everybody, as the training table has them."""
    return pl.read_parquet(workspace.folder / "a" / "tables" / "train.parquet").select("id", "y")


def asked(workspace: Workspace, table: pl.DataFrame, **more: Any) -> Any:
    file = workspace.folder / "outcomes.parquet"
    table.write_parquet(file)
    return api.outcomes(workspace.folder / "a", file, **more)


def test_figures_are_those_of_the_very_scores(scored: Workspace) -> None:
    task, table = task_of(scored), known(scored)
    strangers = table.head(7).with_columns(id=pl.lit("stranger") + pl.col("id"))
    late = table.tail(5).with_columns(y=pl.lit(None, table.schema["y"]))
    before = scored.files()
    found = asked(scored, pl.concat([table.head(table.height - 5), strangers, late]))
    assert (found.rows, found.unknown, found.open) == (table.height + 7, 7, 5)
    (path,) = score_files(scored)
    rows = table.head(table.height - 5).join(pl.read_parquet(path), on="id")
    assert found.joined == rows.height and found.version == FIRST_RUN
    classes = json.loads(
        (scored.folder / "a" / "models" / NAME / FIRST_RUN / "columns.json").read_bytes()
    )["classes"]
    truth = rows["y"].to_numpy()
    if task != "regression":
        truth = np.array([float(classes.index(value)) for value in rows["y"]])
    prediction = rows["score"].to_numpy()
    if task == "multiclass":
        prediction = rows.select([f"probability_{name}" for name in classes]).to_numpy()
    expected = all_metrics(task, truth, prediction)  # type: ignore[arg-type]
    assert {name: span.value for name, span in found.metrics.items()} == pytest.approx(expected)
    assert all(span.low <= span.value <= span.high for span in found.metrics.values())
    assert sum(group.rows for group in found.groups) == found.joined
    assert all(group.rows >= 10 for group in found.groups)
    scores = [group.score for group in found.groups]
    assert scores == sorted(scores)
    # A report is all that is new; neither an ID nor a label is in it.
    new = {name for name, content in scored.files().items() if before.get(name) != content}
    report = f"a/home/{NAME}/outcomes/{FIRST_RUN}.json"
    assert new == {"outcomes.parquet", report}
    assert "p00" not in (scored.folder / report).read_text()


def test_a_persons_first_score_counts(scored: Workspace) -> None:
    first = asked(scored, known(scored))
    (path,) = score_files(scored)
    later = path.with_name("local-later.parquet")
    pl.read_parquet(path).with_columns(score=pl.lit(0.5)).write_parquet(later)
    try:
        again = asked(scored, known(scored))
    finally:
        later.unlink()
    assert (again.joined, again.score, again.metrics) == (first.joined, first.score, first.metrics)


def test_scores_count_in_whatever_mode_they_were_made(scored: Workspace) -> None:
    (path,) = score_files(scored)
    switched = path.rename(path.with_name(path.name.replace("local-", "desensitised-")))
    try:
        found = asked(scored, known(scored))
        blocks = outcome_blocks(found, api.models(scored.folder).version())
    finally:
        switched.rename(path)
    assert found.mode == "desensitised" and found.joined == known(scored).height
    (table,) = (block for block in blocks if isinstance(block, Table))
    # Held-out rows of another mode are no comparison.
    assert [row[-1].text for row in table.rows] == [""] * len(found.metrics)


def test_the_command_prints_the_report_and_replaces_the_last_one(scored: Workspace) -> None:
    table = known(scored)
    file = scored.folder / "outcomes.csv"
    for rows in (table.height, 60):
        table.head(rows).write_csv(file)
        said = printed("outcomes", scored.folder / "a", file)
        assert f"Outcomes of version {FIRST_RUN} in mode local" in said
        kept = json.loads((scored.folder / f"a/home/{NAME}/outcomes/{FIRST_RUN}.json").read_text())
        assert (kept["rows"], kept["joined"]) == (rows, rows)


def wrong(table: pl.DataFrame, task: str) -> dict[str, tuple[pl.DataFrame, str]]:
    """Tables that are refused, and what is said."""
    label: Any = pl.lit("neither") if task != "regression" else pl.lit("much")
    text = table.with_columns(pl.col("y").cast(pl.String))
    return {
        "empty": (table.head(0), "has no rows"),
        "no label": (table.drop("y"), "no column y"),
        "no ID": (table.drop("id"), "no column id"),
        "twice": (pl.concat([table, table.head(3)]), "6 of .* have an ID that another row"),
        "without ID": (table.with_columns(id=pl.lit(None, pl.String)), "have no ID"),
        "other type": (table.with_columns(id=pl.int_range(table.height)), "not of type string"),
        "other label": (
            text.with_columns(y=pl.when(pl.col("id") == text["id"][0]).then(label).otherwise("y")),
            "is not one of|is not a number",
        ),
        "too large": (table.with_columns(y=pl.lit(1e200)), "is not one of|numbers beyond"),
        "strangers": (table.with_columns(id=pl.col("id") + "x"), "has scored 0 of the"),
        "none known": (table.with_columns(y=pl.lit(None, table.schema["y"])), "0 of the 0 people"),
    }


@pytest.mark.parametrize("fault", wrong(pl.DataFrame({"id": ["a"], "y": ["b"]}), "binary"))
def test_what_is_wrong_is_refused_and_changes_nothing(scored: Workspace, fault: str) -> None:
    table, said = wrong(known(scored), task_of(scored))[fault]
    asked(scored, known(scored))
    report = scored.folder / f"a/home/{NAME}/outcomes/{FIRST_RUN}.json"
    before = report.read_bytes()
    with pytest.raises(ContractError, match=said) as refused:
        asked(scored, table)
    assert "p00" not in str(refused.value) and "neither" not in str(refused.value)
    assert report.read_bytes() == before


def test_a_damaged_file_of_scores_is_named(scored: Workspace) -> None:
    (path,) = score_files(scored)
    whole = path.read_bytes()
    path.write_bytes(whole[:100])
    try:
        with pytest.raises(ContractError, match=f"{path.name} cannot be read"):
            asked(scored, known(scored))
    finally:
        path.write_bytes(whole)


def test_a_version_that_never_scored_and_a_file_that_is_none(scored: Workspace) -> None:
    version = "f" * 16
    folder = scored.folder / "a" / "models" / NAME
    files = {path.name: path.read_bytes() for path in (folder / FIRST_RUN).iterdir()}
    (folder / version).mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / version / name).write_bytes(content)
    with pytest.raises(ContractError, match="has no scores in mode local"):
        asked(scored, known(scored), version=version)
    broken = scored.folder / "broken.parquet"
    broken.write_bytes(b"no table")
    said = printed("outcomes", scored.folder / "a", broken, fails=True)
    assert "not a Parquet file" in said


def test_forgotten_people_count_as_not_scored(scored: Workspace, tmp_path: Path) -> None:
    copy = scored.copy(tmp_path / "federation", FIRST_RUN)
    table = known(copy)
    printed("forget", copy.folder / "a", table["id"][0])
    found = asked(copy, table)
    assert (found.unknown, found.joined) == (1, table.height - 1)

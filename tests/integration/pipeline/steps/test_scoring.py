"""A batch gives every person the score that the training's evaluation gave, to the bit."""

from pathlib import Path
from typing import Any, get_args

import numpy as np
import polars as pl
import pytest

from opboost_ops.config.federation import ScoringMode
from opboost_ops.errors import ContractError
from opboost_ops.learning.boosters.lightgbm_text import TextModel
from tests.federation import FIRST_RUN, Workspace
from tests.integration.pipeline.scoring_data import (
    HOLDERS,
    NAME,
    clear,
    dataset,
    held_out,
    on_clear_values,
    predicted,
    score_files,
    scoring,
)

#: A run of each mode, so that all can score in one workspace.
RUNS = {mode: f"{k + 10:016x}" for k, mode in enumerate(get_args(ScoringMode))}


@pytest.fixture(
    scope="module",
    params=["binary", pytest.param("multiclass", marks=pytest.mark.slow), "regression"],
)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A model that was evaluated in all modes; its exchange is not encrypted.

    The binary one is trained on FederBoost's buckets.
    """
    workspace = Workspace.write(
        tmp_path_factory.mktemp(request.param) / "federation",
        dataset(request.param, buckets=request.param == "binary"),
        training={"trees": 8, "depth": 3},
        scoring={"mode": "desensitised", "evaluate": ["routed", "local"]},
    )
    workspace.plain()
    workspace.all()
    yield workspace


def splits_of(workspace: Workspace) -> dict[str, list[float]]:
    model = workspace.version(FIRST_RUN) / "model.txt"
    return TextModel.parse(model.read_text()).integer_comparisons()


def place(workspace: Workspace, run: str, kind: str, party: str) -> Path:
    return workspace.folder / "exchange" / NAME / run / kind / party


@pytest.mark.parametrize("mode", list(RUNS))
def test_the_people_of_the_training_get_the_evaluations_predictions(
    trained: Workspace, mode: str
) -> None:
    before = predicted(trained, mode)
    people = held_out(trained)
    run = scoring(trained, mode, RUNS[mode])
    summaries = run.all()
    assert summaries["a.score"]["mode"] == mode
    (path,) = (p for p in score_files(trained) if p.name.startswith(mode))
    assert path.parent == trained.folder / "a" / "scores" / NAME / FIRST_RUN
    scores = pl.read_parquet(path)
    classes = trained.declared.parties["a"].label.classes or ()  # type: ignore[union-attr]
    each = [f"probability_{name}" for name in classes]
    assert scores.columns == ["id", "score", "class", *each, "model_version"]
    assert set(scores["model_version"]) == {FIRST_RUN}

    tables = {p: pl.read_parquet(trained.folder / p / "tables" / "score.parquet") for p in HOLDERS}
    whole = set(pl.read_parquet(trained.table_path("a"))["id"])
    common = whole & set(tables["b0"]["id"]) & set(tables["b1"]["id"])
    assert sorted(scores["id"]) == sorted(whole if mode == "local" else common)
    assert len(common) < len(whole)

    same = people.select("id").join(scores, on="id", how="left", maintain_order="left")
    best = before if before.ndim == 1 else before.max(axis=1)
    assert len(best) > 50
    assert same["score"].to_numpy().tobytes() == best.tobytes()
    if classes:
        chosen = before > 0.5 if before.ndim == 1 else before.argmax(axis=1)
        assert same["class"].to_list() == [classes[int(c)] for c in chosen]
    else:
        assert same["class"].null_count() == len(same)


def test_a_table_rewritten_before_the_evaluation_is_not_read_as_the_former_one(
    tmp_path: Path,
) -> None:
    """Its rows have other places, or are other people's."""
    scoring = {"mode": "desensitised", "evaluate": ["local"]}
    training = {"trees": 4, "depth": 3}
    run = Workspace.write(
        tmp_path / "federation", dataset("binary"), training=training, scoring=scoring
    )
    run.until("evaluate")
    run.edit_table("a", lambda table: table.reverse())
    with pytest.raises(ContractError, match="rewritten while the run"):
        run.step("a", "evaluate")


@pytest.mark.parametrize("mode", ["routed", "local"])
def test_routed_and_local_predictions_are_those_on_clear_domain_values(
    trained: Workspace, mode: str
) -> None:
    # A category and a missing bit are among what the trees split on.
    used = set(splits_of(trained))
    assert any(name.startswith("b1.colour=") for name in used)
    assert "b0.w=missing" in used
    expected = on_clear_values(trained, held_out(trained))
    assert predicted(trained, mode).tobytes() == expected.tobytes()
    assert not np.array_equal(predicted(trained, "desensitised"), expected)


@pytest.mark.parametrize("run", [FIRST_RUN, RUNS["routed"]])
def test_routes_are_cell_numbers_and_nothing_else(trained: Workspace, run: str) -> None:
    if not place(trained, run, "plan", "a").is_dir():
        scoring(trained, "routed", run).all()
    splits = splits_of(trained)
    for party in HOLDERS:
        asked = Workspace(trained.folder, run).artifact("route_request", party).document
        names = [name for name in splits if name.startswith(f"{party}.")]
        assert asked == {"thresholds": {n.removeprefix(f"{party}."): splits[n] for n in names}}
        made = Workspace(trained.folder, run, "train" if run == FIRST_RUN else "score")
        routes = made.artifact("routes", party)
        whole = pl.read_parquet(made.table_path(party)).height
        # A row is a tag and its cell numbers; nothing else is in it.
        bits = sum((len(found) + 1).bit_length() for found in asked["thresholds"].values())
        assert routes.document.keys() == {"nonce", "width"}
        assert routes.document["width"] == -(-bits // 8)
        assert set(routes.manifest.columns) == set(asked["thresholds"])
        # In training, too, where rows that are not held out are dummies.
        assert routes.manifest.rows == whole
        if run == FIRST_RUN:
            continue
        opened = pl.read_ipc((made.home("a") / f"opened-{party}.arrow").read_bytes())
        assert opened.columns == list(routes.manifest.columns)
        assert all(kind.is_integer() for kind in opened.dtypes)
        known = clear(_scored(trained))
        for name, thresholds in asked["thresholds"].items():
            values = known[f"{party}.{name}"]
            passed = (values[:, None] > np.array(thresholds)[None, :]).sum(axis=1)
            assert opened[name].to_list() == passed.tolist()


def _scored(workspace: Workspace) -> pl.DataFrame:
    """The people whom the routed run scored, in its order."""
    (path,) = (p for p in score_files(workspace) if p.name.startswith("routed"))
    ids = pl.read_parquet(path).select("id")
    return ids.join(
        pl.read_parquet(workspace.table_path("a")), on="id", how="left", maintain_order="left"
    )

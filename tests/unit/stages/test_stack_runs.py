"""A stack in a run: nothing else leaves, and every batch has the evaluation's scores to the bit."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from opboost_ops.boosting import stack_text
from opboost_ops.boosting.trainer import weights_of
from opboost_ops.cli import app
from opboost_ops.config.loading import load_federation
from opboost_ops.errors import ConfigError, OpBoostError
from opboost_ops.models.registry import Registry, model_in
from opboost_ops.pages import model_version
from opboost_ops.stages.gate import same_columns
from tests.federation import FIRST_RUN, SCORING_RUN, Workspace
from tests.unit.stages.scoring_data import (
    NAME,
    dataset,
    held_out,
    predicted,
    score_files,
    scoring,
)

SECOND_RUN = "b" * 16


def trained(folder: Path, patch: pytest.MonkeyPatch, task: str, denoise: str) -> Workspace:
    """A federation whose first model is there; its exchange is not encrypted."""
    workspace = Workspace.write(
        folder,
        replace(dataset(task), epsilon=1.0),
        training={"trees": 20, "depth": 3, "denoise": denoise},
        scoring={"mode": "desensitised"},
    )
    workspace.plain()
    workspace.known_to(patch)
    workspace.all()
    return workspace


def sent(workspace: Workspace, run: str = FIRST_RUN) -> dict[str, bytes]:
    """All content that the parties exchanged but for the plan, which names the way of training."""
    folder = workspace.folder / "exchange" / NAME / run
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.name in ("table.parquet", "document.json") and "plan" not in path.parts
    }


def registry(workspace: Workspace) -> Registry:
    return Registry(workspace.folder / "a" / "models", NAME)


def scored_as_evaluated(workspace: Workspace, run: str) -> None:
    """Score the people of the training, and find the evaluation's scores."""
    known = set(score_files(workspace))
    workspace.scoring(run).all()
    (path,) = (p for p in set(score_files(workspace)) - known if p.suffix == ".parquet")
    before = predicted(workspace, "desensitised")
    best = before if before.ndim == 1 else before.max(axis=1)
    people = held_out(workspace).select("id")
    same = people.join(pl.read_parquet(path), on="id", how="left", maintain_order="left")
    assert len(best) > 50
    assert same["score"].to_numpy().tobytes() == best.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("task", ["multiclass", "regression"])
def test_a_batch_gets_the_evaluations_scores_and_nothing_else_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    plain = trained(tmp_path / "plain", monkeypatch, task, "none")
    workspace = trained(tmp_path / "stack", monkeypatch, task, "stack")
    assert sent(workspace) == sent(plain)
    found = registry(workspace).files(FIRST_RUN)
    assert found["stack_plain.txt"] == registry(plain).files(FIRST_RUN)["model.txt"]
    scored_as_evaluated(workspace, SCORING_RUN)


@pytest.mark.slow
def test_a_stack_is_a_version_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = trained(tmp_path / "plain", monkeypatch, "binary", "none")
    workspace = trained(tmp_path / "stack", monkeypatch, "binary", "stack")
    assert sent(workspace) == sent(plain)
    models = registry(workspace)
    found, folder = models.files(FIRST_RUN), workspace.folder / "a" / "models" / NAME / FIRST_RUN
    weights = weights_of(model_in(found))
    assert {"means", "behind"} & set(weights)
    assert found["stack_plain.txt"] == registry(plain).files(FIRST_RUN)["model.txt"]
    assert "model.txt" not in found

    # Its parts are files with digests, and a part that is not as it was is damage.
    parts = {stack_text.FILE, stack_text.CLASSES, *map(stack_text.part_file, weights)}
    digests = json.loads(found["sha256.json"])
    assert parts <= set(digests)
    for part in parts:
        assert digests[part] == hashlib.sha256(found[part]).hexdigest()

    # The card and the page say what it is.
    site = str(workspace.folder / "a")
    shown = CliRunner().invoke(app, ["models", "show", site, FIRST_RUN])
    words = " ".join(json.loads(shown.stdout)["training_words"])
    assert json.loads(shown.stdout)["training"]["denoise"] == "stack"
    assert all(f" {weight:g}" in words for weight in weights.values())
    assert "importance are those of plain training" in words
    page = repr(model_version.version("a", NAME, FIRST_RUN))
    assert "A stack: its scores are a mean" in page
    for part in parts:
        assert f"/{part}?save=1" in page
        assert model_version.version_file("a", NAME, FIRST_RUN, part) == found[part]
    out = str(tmp_path / "model.txt")
    told = CliRunner().invoke(app, ["models", "export", site, FIRST_RUN, "--out", out])
    assert isinstance(told.exception, ConfigError)
    assert "is a stack of several models" in str(told.exception)
    assert not Path(out).exists()

    scored_as_evaluated(workspace, SCORING_RUN)

    # Reasons would be of another model than the score.
    workspace.edit_yaml("federation.yaml", lambda d: d["scoring"].update(reasons=2))
    workspace.edit_yaml("federation.yaml", lambda d: d["training"].update(denoise="none"))
    with pytest.raises(OpBoostError, match="is a stack, whose scores are no sum"):
        workspace.scoring("c" * 16).open()
    workspace.edit_yaml("federation.yaml", lambda d: d["scoring"].pop("reasons"))

    # The next model is compared with it on the same rows, and is put into use and taken out.
    Workspace(workspace.folder, SECOND_RUN).all()
    decided = json.loads(models.files(SECOND_RUN)["evaluation.json"])
    assert "auc" in decided["gains"]["reference"]
    models.promote(SECOND_RUN, "by hand")
    assert models.rollback("it was better") == FIRST_RUN
    assert workspace.scoring("d" * 16).open()["version"] == FIRST_RUN

    # In another mode it scores nothing; none of its splits is asked for there, nothing compared.
    facts = json.loads(found["columns.json"])
    assert same_columns(workspace.declared, facts, found)
    routed = scoring(workspace, "routed", "e" * 16)
    assert not same_columns(workspace.declared, facts, found)
    assert same_columns(workspace.declared, facts, models.files(SECOND_RUN))
    with pytest.raises(OpBoostError, match="never evaluated in mode routed"):
        routed.open()

    # A part that is damaged is refused before anything is scored.
    part = folder / stack_text.CLASSES
    part.chmod(0o644)
    part.write_bytes(part.read_bytes().replace(b"0.1", b"0.2", 1))
    workspace.edit_yaml("federation.yaml", lambda d: d["scoring"].update(mode="desensitised"))
    with pytest.raises(OpBoostError, match="is damaged"):
        workspace.scoring("f" * 16).open({"version": FIRST_RUN})


@pytest.mark.parametrize(
    ("changes", "faults"),
    [
        ({"scoring": {"mode": "routed"}}, ["randomised rows alone, and scoring names routed"]),
        ({"scoring": {"evaluate": ["local", "routed"]}}, ["scoring names local, routed"]),
        ({"scoring": {"reasons": 3}}, ["scoring.reasons: names features by their parts"]),
        ({"training": {"trainer": "xgboost"}}, ["is stack, which trains LightGBM alone"]),
        ({"training": {"engine": "dask"}}, ["looks at all rows at once"]),
        (
            {"training": {"early_stopping": {"rounds": 3, "share": 0.2}}},
            ["training.early_stopping: judges rows"],
        ),
        ({"domain": {"lower": 1, "upper": 129}}, ["domain: has more than 128 values"]),
        (
            {
                "training": {"objective": "l1", "parameters": {"monotone_constraints": {"a.x": 1}}},
                "scoring": {"mode": "local", "reasons": 3},
            },
            [
                "training.objective: is not what a stack's weights go by",
                "training.parameters.monotone_constraints: a stack cannot hold",
                "scoring.reasons: names features",
                "scoring names local",
            ],
        ),
    ],
)
def test_what_is_refused_with_all_faults_at_once(
    tmp_path: Path, changes: dict[str, dict[str, Any]], faults: list[str]
) -> None:
    workspace = Workspace.write(tmp_path, dataset("regression"))

    def change(data: dict[str, Any]) -> None:
        data["training"]["denoise"] = "stack"
        for key, entries in changes.items():
            data.setdefault(key, {}).update(entries)

    load_federation(workspace.file)
    workspace.edit_yaml("federation.yaml", lambda d: d["training"].update(denoise="stack"))
    assert load_federation(workspace.file).denoising == "stack"
    workspace.edit_yaml("federation.yaml", change, agree=False)
    with pytest.raises(ConfigError) as told:
        load_federation(workspace.file)
    for fault in faults:
        assert fault in str(told.value)

"""The same promises in horizontal learning, with XGBoost, with a left join, and in a bucket."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather as feather
import pytest

from opboost_ops.extras.datasets.generated import write_lenders
from opboost_ops.pipeline.runner.local import run_federation
from opboost_ops.verifier import verify
from tests.federation import FIRST_RUN, Workspace
from tests.integration.pipeline.steps.test_overlap_left import allow, whom_b0_lacks
from tests.verifier.tampering import (
    broken,
    changed,
    executed,
    replan,
    statuses,
    write_manifest,
)

Tamper = Callable[[Path], None]


@pytest.fixture(scope="module")
def lenders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A federation of horizontal learning after its run."""
    folder = tmp_path_factory.mktemp("horizontal") / "lenders"
    file = write_lenders(folder, rows=300, training={"trees": 1, "depth": 1})
    run_federation(file, {}, lambda *_: None)
    return folder


@pytest.fixture(scope="module", params=["lightgbm", "xgboost"])
def left(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A left join after its run, with either library."""
    folder = tmp_path_factory.mktemp("left") / "federation"
    training = {"trees": 3, "depth": 3, "trainer": request.param}
    workspace = Workspace.write(
        folder, whom_b0_lacks(), training=training, scoring={"mode": "desensitised"}
    )
    workspace.declare("federation.yaml", alignment={"overlap": "left"})
    allow(workspace, "b0", "b1")
    workspace.all()
    return workspace


def one(folder: Path, pattern: str) -> Path:
    """The one file of a pattern."""
    (path,) = folder.glob(pattern)
    return path


def forged_round(folder: Path) -> None:
    """A sum that answers the plan instead of the session."""
    place = one(folder, "exchange/lenders/*/masked/lender_02/facts-*/manifest.json")
    changed(place, lambda manifest: manifest.update(answers="0" * 64))


def unlogged_rounds(folder: Path) -> None:
    executed(folder / "lender_02", "DELETE FROM audit WHERE entry LIKE '%messages of rounds%'")


def unentered_rounds(folder: Path) -> None:
    executed(
        folder / "lender_02",
        "DELETE FROM entries WHERE json_extract(event, '$.kind') LIKE 'boost%'",
    )


def another_training(folder: Path) -> None:
    """A plan of other sums than were agreed."""
    replan(folder, "lender_01", lambda plan: plan["federation"]["training"].update(trees=9))


def less_training(folder: Path) -> None:
    """A plan that is silent on what was agreed."""
    replan(folder, "lender_01", lambda plan: plan["federation"]["training"].pop("trees"))


def unknown_kind(folder: Path) -> None:
    """Something that no run has, signed by its party."""
    place = one(folder, "exchange/lenders/*/masked/lender_02/facts-00000-00")
    manifest = json.loads((place / "manifest.json").read_bytes())
    other = Path(str(place).replace("/masked/", "/notes/"))
    other.mkdir(parents=True)
    for path in place.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    write_manifest(folder, other, {**manifest, "kind": "notes"}, "lender_02")


def better_than_it_is(folder: Path) -> None:
    path = one(folder, "lender_02/models/lenders/*/evaluation.json")
    changed(path, lambda evaluation: evaluation["metrics"]["federated_local"].update(auc=1.0))


@pytest.mark.parametrize(
    ("name", "tamper"),
    [
        ("order", forged_round),
        ("order", unknown_kind),
        ("agreement", another_training),
        ("agreement", less_training),
        ("audit", unlogged_rounds),
        ("ledger", unentered_rounds),
        ("metrics", better_than_it_is),
    ],
)
def test_a_tamper_with_horizontal_learning_breaks_its_promise(
    name: str, tamper: Tamper, lenders: Path, tmp_path: Path
) -> None:
    folder = Workspace(lenders).copy(tmp_path / "lenders", FIRST_RUN).folder
    assert broken(verify([folder])) == set()
    tamper(folder)
    assert name in broken(verify([folder]))


@pytest.mark.parametrize("metrics", [None, 0.5])
def test_a_private_model_of_horizontal_learning_breaks_no_promise(
    metrics: float | None, tmp_path: Path
) -> None:
    """Its charge stands for its sums, and its metrics with noise are not computed again."""
    private = {"epsilon": 4.0, "delta": 1e-6, "metrics_epsilon": metrics}
    training = {"trees": 1, "depth": 1, "private": {k: v for k, v in private.items() if v}}
    file = write_lenders(tmp_path / "lenders", rows=300, training=training)
    run_federation(file, {}, lambda *_: None)
    outcomes = verify([file.parent])
    assert broken(outcomes) == set()
    assert statuses(outcomes[-1])["metrics"] == ("not checkable" if metrics else "held")


def test_rounds_of_a_run_that_did_not_end_are_not_checkable(lenders: Path, tmp_path: Path) -> None:
    folder = Workspace(lenders).copy(tmp_path / "lenders", FIRST_RUN).folder
    party = folder / "lender_02"
    executed(party, "UPDATE sessions SET ended_at = NULL")
    executed(party, "DELETE FROM audit WHERE number >= (SELECT min(number) FROM audit "
             "WHERE entry LIKE '%messages of rounds%')")  # fmt: skip
    assert "audit" not in broken(verify([party]))


def another_threshold(version: Path) -> None:
    def change(model: Any) -> None:
        for tree in model["learner"]["gradient_booster"]["model"]["trees"]:
            tree["split_conditions"] = [3.25] * len(tree["split_conditions"])

    if (version / "model.json").is_file():
        changed(version / "model.json", change)
        return
    path = version / "model.txt"
    lines = path.read_text().split("\n")
    path.write_text(
        "\n".join(
            "threshold=" + " ".join("3.25" for _ in line.split()) if "threshold=" in line else line
            for line in lines
        )
    )


def test_which_columns_are_of_others_is_not_the_label_holder_s_to_say(
    left: Workspace, tmp_path: Path
) -> None:
    workspace = left.copy(tmp_path / "federation", FIRST_RUN)
    another_threshold(workspace.version())
    changed(workspace.version() / "columns.json", lambda facts: facts["ranked"].clear())
    assert "thresholds" in broken(verify([workspace.folder / "a"]))


def test_a_left_join_is_verified_with_either_library(left: Workspace, tmp_path: Path) -> None:
    workspace = left.copy(tmp_path / "federation", FIRST_RUN)
    whose = workspace.folder / "a"
    outcomes = verify([whose])
    assert broken(outcomes) == set()
    checked = {name for name, status in statuses(outcomes[-1]).items() if status == "held"}
    assert checked >= {"thresholds", "metrics", "gate", "versions"}
    if left.declared.training.trainer == "lightgbm":
        assert "model" in checked
        path = workspace.home("a") / "frame.arrow"
        frame = feather.read_table(path)
        turned = pc.subtract(1.0, frame.column("label"))
        at = frame.column_names.index("label")
        feather.write_feather(pa.table(frame.set_column(at, "label", turned)), path)
        assert broken(verify([whose])) == {"model"}
    another_threshold(workspace.version())
    assert {"thresholds", "metrics"} <= broken(verify([whose]))


def test_a_copy_of_a_bucket_is_verified_as_the_store_that_it_is(
    trained_once: Workspace, tmp_path: Path
) -> None:
    """In a bucket, an artifact's files lie below an attempt that ``published.json`` names."""
    bucket = trained_once.copy(tmp_path / "federation", FIRST_RUN).folder / "exchange"
    for manifest in sorted(bucket.glob("*/*/*/*/manifest.json")):
        attempt = manifest.parent / f".{'a' * 32}"
        attempt.mkdir()
        for path in [p for p in manifest.parent.iterdir() if p.is_file()]:
            path.rename(attempt / path.name)
        published = {"attempt": "a" * 32}
        (manifest.parent / "published.json").write_text(json.dumps(published))
    outcomes = verify([bucket.parent])
    assert broken(outcomes) == set()
    assert statuses(outcomes[0])["signatures"] == "held"
    next(bucket.glob("*/*/ranks/bank/.*/entries.bin.enc")).write_bytes(b"")
    assert "files" in broken(verify([bucket.parent]))


def test_a_store_by_url_is_copied_and_read(trained_once: Workspace) -> None:
    (outcome,) = verify([f"file://{trained_once.folder}/exchange"])
    assert statuses(outcome)["signatures"] == "held"


def test_a_store_that_cannot_be_read_is_not_checkable(workspace: Workspace) -> None:
    workspace.declare("bank/site.yaml", store="/nowhere/exchange")
    store, party = verify([workspace.folder / "bank"])
    assert statuses(store) == {"store": "not checkable"}
    assert broken([party]) == set()


def test_a_store_with_a_folder_that_cannot_be_read_is_not_checkable(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``lost+found`` of a file system, which only its root reads."""
    closed, entries = workspace.folder / "exchange" / "lost+found", Path.iterdir
    closed.mkdir()

    def iterdir(path: Path) -> Iterator[Path]:
        if path == closed:
            raise PermissionError(path)
        return entries(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    store, *parties = verify([workspace.folder])
    assert statuses(store) == {"store": "not checkable"}
    assert broken(parties) == set()
    # A copy of a store is known by its runs alone.
    shutil.rmtree(closed.with_name(".identity"))
    (store,) = verify([closed.parent])
    assert statuses(store) == {"store": "not checkable"}

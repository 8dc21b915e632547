"""The folder of scores: files are added whole, once, and never changed; and what it cost."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from opboost_ops.config.columns import columns_of
from opboost_ops.errors import ContractError
from opboost_ops.exchange.sealed.sealing import Rows
from opboost_ops.learning.registry import registry
from opboost_ops.pipeline import catalogue
from opboost_ops.pipeline.stage import Context, Outcome, Stage
from tests.federation import FIRST_RUN, Workspace
from tests.integration.pipeline.scoring_data import score_files, scoring
from tests.party_state import entries_of

CRASH = Path(__file__).parents[3] / "e2e_local" / "crash.py"
RUN, LATER = "0" * 15 + "a", "0" * 15 + "b"
FEATURES = {"b0": {"w", "size"}, "b1": {"v", "colour"}}


@pytest.fixture
def trained(toys_once: Workspace, tmp_path: Path) -> Workspace:
    return toys_once.copy(tmp_path / "federation", FIRST_RUN)


def lines(workspace: Workspace, party: str, run: str, kind: str) -> list[Any]:
    return [r for r in entries_of(workspace, party) if (r.run, r.kind) == (run, kind)]


def test_the_same_inputs_add_one_file_however_often(trained: Workspace) -> None:
    mode = "routed"
    first = scoring(trained, mode, RUN).all()["a.write_scores"]
    (path,) = score_files(trained)
    assert (first["new"], first["file"]) == (True, path.name)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o077 == 0
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    again = scoring(trained, mode, RUN).step("a", "write_scores")
    # The same rows in another order, too.
    permuted = scoring(trained, mode, LATER)
    for party in ("a", "b0"):
        permuted.edit_table(party, lambda t: t.sample(fraction=1, shuffle=True, seed=5))
    later = permuted.all()["a.write_scores"]
    assert (again["new"], later["new"]) == (False, False)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    # Other inputs, be it of one party alone, are another file.
    third = scoring(trained, mode, "0" * 15 + "c")
    third.edit_table("b1", lambda t: t.filter(pl.col("id") != t["id"][0]))
    assert third.all()["a.write_scores"]["new"] is True
    assert len(score_files(trained)) == 2
    assert path.read_bytes() == before[0]


def test_whatever_stage_fails_there_are_no_scores_until_the_last_one(
    trained: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaking(stage: Stage) -> Stage:
        def run(context: Context) -> Outcome:
            stage(context)
            raise RuntimeError("its work was done")

        return run

    run = scoring(trained, "routed", RUN)
    models = trained.files("a", "models")
    run.open()
    for step in run.steps():
        if step.stage == "write_scores":
            break
        whole = catalogue.STAGES[step.stage]
        with monkeypatch.context() as patch:
            patch.setitem(catalogue.STAGES, step.stage, breaking(whole))  # type: ignore[arg-type]
            with pytest.raises(ContractError, match=r"unexpectedly|cannot be used|usable common"):
                run.step(step.party, step.stage)
        assert score_files(trained) == []
        run.step(step.party, step.stage)
    writes = [(registry.pq.ParquetWriter, "write_table"), (os, "fsync"), (os, "replace")]
    for owner, function in writes:
        with monkeypatch.context() as patch:
            patch.setattr(owner, function, _full(getattr(owner, function)))
            with pytest.raises(ContractError, match="no space left on a disk of its own"):
                run.step("a", "write_scores")
        assert score_files(trained) == []
    assert run.step("a", "write_scores")["new"] is True
    assert len(score_files(trained)) == 1
    assert trained.files("a", "models") == models


def _full(real: Any) -> Any:
    """The disk is full for scores; what went wrong can still be written at home."""

    def call(*given: Any, **named: Any) -> Any:
        if "errors" in str(given):
            return real(*given, **named)
        raise OSError(28, "No space left on device")

    return call


@pytest.mark.slow
def test_a_kill_leaves_nothing_that_could_be_taken_for_scores(trained: Workspace) -> None:
    run = scoring(trained, "desensitised", RUN)
    run.until("write_scores")
    done = subprocess.run(
        [sys.executable, CRASH, "a", "write_scores", RUN, "after write"],
        env={**os.environ, **run.environment(), "LABEL_HOLDER": "a"},
        cwd=CRASH.parents[2],
        capture_output=True,
    )
    assert done.returncode == -9, done.stderr.decode()
    (partial,) = score_files(trained)
    assert partial.name.startswith(".")
    assert partial.suffix != ".parquet"
    summary = run.step("a", "write_scores")
    assert summary["new"] is True
    assert [p.name for p in score_files(trained) if p.suffix == ".parquet"] == [summary["file"]]


def test_other_content_is_told_and_never_overwritten(trained: Workspace) -> None:
    run = scoring(trained, "desensitised", RUN)
    run.all()
    (path,) = score_files(trained)
    whole = path.read_bytes()
    others = pl.read_parquet(path).with_columns(score=pl.lit(0.5))
    for spoil in (lambda: path.write_bytes(whole[:200]), lambda: others.write_parquet(path)):
        spoil()
        before = path.read_bytes()
        with pytest.raises(ContractError, match=r"is damaged, or holds other scores") as caught:
            run.step("a", "write_scores")
        assert path.name in str(caught.value)
        assert "move the file away" in str(caught.value)
        assert score_files(trained) == [path]
        assert path.read_bytes() == before
        path.unlink()
        assert run.step("a", "write_scores")["new"] is True


def test_desensitised_rows_are_charged_and_released_once(trained: Workspace) -> None:
    scoring(trained, "desensitised", RUN).all()
    for party, features in FEATURES.items():
        charged = lines(trained, party, RUN, "values")
        assert {line.account for line in charged} == {"local_dp"}
        assert {line.feature.partition("=")[0] for line in charged} == features
        assert all(line.loss.loss[-1] > 0 and line.release for line in charged)
        assert all(line.receiver == "a" for line in charged)
        assert lines(trained, party, RUN, "routes") == []
    # The same people scored again, in another order, belong to the same releases.
    later = scoring(trained, "desensitised", LATER)
    later.edit_table("b0", lambda t: t.sample(fraction=1, shuffle=True, seed=5))
    assert later.all()["a.write_scores"]["new"] is False
    for party in FEATURES:
        used = [{r.release for r in lines(trained, party, run, "values")} for run in (RUN, LATER)]
        assert used[0] == used[1]


def test_cells_that_nobody_asked_for_are_clipped(trained: Workspace) -> None:
    """They stop no run: a holder could mark one person so, and see whether the run stops."""
    column = next(c for c in columns_of(trained.declared, "b0") if c.name == "w")
    rows = Rows("routes", [column], {"w": [0.5, 1.5, 2.5, 3.5]})
    packed = rows.format.pack([np.array([1, 5, 6, 7])])
    cells = rows.unpack(packed)
    assert cells["w"].tolist() == [0, 4, 4, 4]

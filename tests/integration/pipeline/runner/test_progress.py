"""How snapshot a stage is: kept at home while it runs, at most once a second, and gone with it."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from opboost_ops.pipeline.runner import progress
from opboost_ops.pipeline.runner.progress import StageProgress, StoredProgress
from opboost_ops.pipeline.stage import Home
from tests.federation import Workspace


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        patch.setattr(time, "monotonic", lambda: self.now)

    def later(self, seconds: float) -> None:
        self.now += seconds


def counts(folder: Path, stage: str = "train") -> tuple[str, int, int]:
    snapshot = progress.read(folder, stage)
    assert snapshot is not None
    return snapshot.what, snapshot.done, snapshot.of


def test_it_is_written_at_most_once_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, written = Clock(monkeypatch), []
    keep = Home.write_json
    monkeypatch.setattr(
        Home, "write_json", lambda self, *what: (written.append(what), keep(self, *what))[1]
    )
    before = time.time()
    with (kept := StoredProgress(Home(tmp_path), "train")) as _:
        assert progress.read(tmp_path, "train") is None
        for tree in range(1, 401):
            kept.tell("trees", tree, 400)
            clock.later(0.01)
            if tree == 399:
                assert counts(tmp_path) == ("trees", 301, 400)
                snapshot = progress.read(tmp_path, "train")
                assert snapshot is not None and snapshot.left == pytest.approx(0.99)
        # The last one always is: what comes after it may take longer.
        assert counts(tmp_path) == ("trees", 400, 400)
        snapshot = progress.read(tmp_path, "train")
        assert snapshot is not None
        assert before <= snapshot.began.timestamp() <= time.time()
    assert len(written) == 5
    assert progress.read(tmp_path, "train") is None
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_what_is_left_goes_by_this_try_and_by_what_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trees that an earlier try has drawn, and trials before the trees, say nothing of time."""
    clock, kept = Clock(monkeypatch), StoredProgress(Home(tmp_path), "train")

    def told(what: str, done: int, of: int) -> float | None:
        kept.tell(what, done, of)
        snapshot = progress.read(tmp_path, "train")
        assert snapshot is not None and (snapshot.what, snapshot.done) == (what, done)
        return snapshot.left

    assert told("trials", 1, 3) is None
    clock.later(10)
    assert told("trials", 3, 3) == 0
    clock.later(10)
    # Resumed after tree 300.
    assert told("trees", 301, 400) is None
    clock.later(2)
    assert told("trees", 302, 400) == pytest.approx(2 * 98)
    clock.later(2)
    # A second model of as many trees.
    assert told("trees", 1, 400) is None


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_it_is_gone_however_the_stage_ends(tmp_path: Path, error: type[BaseException]) -> None:
    kept = StoredProgress(Home(tmp_path), "rank")
    with pytest.raises(error), kept:
        kept.tell("rows", 1, 2)
        assert counts(tmp_path, "rank") == ("rows", 1, 2)
        raise error
    assert progress.read(tmp_path, "rank") is None
    # What a killed process left goes when the stage begins again.
    kept.tell("rows", 1, 2)
    with StoredProgress(Home(tmp_path), "rank"):
        assert progress.read(tmp_path, "rank") is None


def test_no_stage_fails_for_it_and_a_damaged_file_is_none(tmp_path: Path) -> None:
    (tmp_path / "progress").write_text("no folder")
    with (kept := StoredProgress(Home(tmp_path), "train")) as _:
        kept.tell("trees", 1, 2)
    (tmp_path / "progress").unlink()
    (tmp_path / "progress").mkdir()
    for content in (b"", b"{", b"[]", b'{"what": "trees"}', b"\xff"):
        (tmp_path / "progress" / "train.json").write_bytes(content)
        assert progress.read(tmp_path, "train") is None


def test_training_tells_it_at_home_alone(asked: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, StageProgress]] = []
    tell: Callable[..., None] = StoredProgress.tell

    def heard(self: StoredProgress, what: str, done: int, of: int) -> None:
        monkeypatch.setattr(self, "_written", -10.0)
        tell(self, what, done, of)
        for party in ("bank", "credit", "shop"):
            for file in asked.home(party).glob("progress/*.json"):
                snapshot = progress.read(asked.home(party), file.stem)
                told.extend([(f"{party}.{file.stem}", snapshot)] if snapshot else [])

    monkeypatch.setattr(StoredProgress, "tell", heard)
    exchange = asked.files("exchange")
    # Nothing has changed since it was trained: without the kept model it is trained again.
    (asked.home("credit").parent / "trained.model").unlink()
    asked.step("credit", "train")
    assert asked.files("exchange") == exchange
    counted = [(where, snapshot.what, snapshot.done) for where, snapshot in told]
    assert counted == [("credit.train", "trees", tree) for tree in range(1, 5)]
    assert not list(asked.folder.rglob("progress/*"))

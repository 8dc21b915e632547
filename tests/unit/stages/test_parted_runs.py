"""Runs whose releases and digests go in parts, as large tables' do: the model is the same."""

import json
import shutil
from collections import Counter, namedtuple
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from opboost_ops.errors import ArtifactError, ContractError
from opboost_ops.exchange import contents, part_sizes
from opboost_ops.exchange.files import is_part
from opboost_ops.exchange.rejection import Reason
from opboost_ops.exchange.salting import unsalted
from opboost_ops.stages.stage import Home
from tests.bad_input.faults import message_is_right
from tests.federation import SECOND_RUN, Workspace

LABEL, BANK = "credit", "bank"

#: As `shutil.disk_usage` gives it.
Room = namedtuple("Room", "total used free")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_sizes, "CELLS", 300)
    monkeypatch.setattr(part_sizes, "DIGESTS", 150)


@pytest.fixture(scope="module")
def parted_once(trained_once: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A second run, up to the label holder's `accept`. Tests copy it."""
    copy = trained_once.copy(tmp_path_factory.mktemp("parted") / "federation", SECOND_RUN)
    with pytest.MonkeyPatch.context() as patch:
        copy.known_to(patch)
        patch.setattr(part_sizes, "CELLS", 300)
        patch.setattr(part_sizes, "DIGESTS", 150)
        copy.until("accept")
    return copy


@pytest.fixture
def parted(parted_once: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    copy = parted_once.copy(tmp_path / "parted", SECOND_RUN)
    copy.known_to(monkeypatch)
    return copy


def place(workspace: Workspace, kind: str) -> Path:
    return workspace.folder / "exchange" / "credit_scoring" / SECOND_RUN / kind / BANK


def listed(workspace: Workspace, kind: str) -> list[str]:
    return sorted(path.name for path in place(workspace, kind).iterdir())


def test_the_model_is_the_same_to_the_byte(asked: Workspace, parted: Workspace) -> None:
    assert "table-0002.parquet.enc" in listed(parted, "ranks")
    assert "entries-0002.bin.enc" in listed(parted, "digests")
    assert json.loads((place(parted, "ranks") / "manifest.json").read_bytes())["version"] == 3
    whole = asked.folder / "exchange" / "credit_scoring" / SECOND_RUN / "ranks" / BANK
    assert json.loads((whole / "manifest.json").read_bytes())["version"] == 2
    parted.until("answer_splits")
    for name in ("alignment", "frame", "holdout_frame"):
        parts, one = (pl.from_arrow(Home(w.home(LABEL)).table(name)) for w in (parted, asked))
        assert parts.equals(one)  # Missing values of one equal those of the other.
    request = json.loads((parted.home(LABEL) / "frame.json").read_bytes())
    assert request == json.loads((asked.home(LABEL) / "frame.json").read_bytes())
    models = [w.files(LABEL, "home", "credit_scoring", SECOND_RUN) for w in (parted, asked)]
    kept = [{n: raw for n, raw in files.items() if "model" in n} for files in models]
    assert kept[0] and kept[0] == kept[1]
    assert parted.files(BANK, "cells") == asked.files(BANK, "cells")
    # Nothing that was made to be sent is left at home.
    assert not (parted.home(BANK) / "sending").exists()


def test_a_retry_sends_the_same_bytes(parted: Workspace) -> None:
    before = parted.files("exchange")
    parted.step(BANK, "publish")
    assert parted.files("exchange") == before


def lost(folder: Path) -> None:
    (folder / "table-0001.parquet.enc").unlink()


def twice(folder: Path) -> None:
    shutil.copy(folder / "table-0000.parquet.enc", folder / "table-0001.parquet.enc")


def shorter(folder: Path) -> None:
    file = folder / "table-0001.parquet.enc"
    file.write_bytes(file.read_bytes()[:-1])


def one_more(folder: Path) -> None:
    shutil.copy(folder / "table-0000.parquet.enc", folder / "table-0009.parquet.enc")


@pytest.mark.parametrize(
    ("change", "reason"),
    [(lost, "malformed"), (twice, "bad_digest"), (shorter, "bad_digest"), (one_more, "malformed")],
)
def test_a_part_that_is_not_as_it_must_be_is_refused(
    parted: Workspace, change, reason: Reason
) -> None:
    change(place(parted, "ranks"))
    with pytest.raises(ArtifactError) as caught:
        parted.step(LABEL, "accept")
    assert getattr(caught.value, "reason", "") == reason
    assert not (parted.home(LABEL) / "accepted.json").exists()


@pytest.mark.parametrize("change", [lost, twice, shorter])
def test_a_part_that_changes_after_it_was_accepted_is_refused_when_it_is_read(
    parted: Workspace, change
) -> None:
    parted.step(LABEL, "accept")
    change(place(parted, "ranks"))
    with pytest.raises(ArtifactError):
        parted.step(LABEL, "assemble")
    assert not (parted.home(LABEL) / "frame.arrow").exists()


def test_a_part_that_was_accepted_is_opened_once_where_it_is_used(
    parted: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: Counter[str] = Counter()

    def counted(raw: bytes, what: str) -> bytes:
        opened[what] += 1
        return unsalted(raw, what)

    monkeypatch.setattr(contents, "unsalted", counted)
    # Once before anything of it is used, and once for the checks.
    for stage, times in (("accept", 2), ("assemble", 1)):
        opened.clear()
        parted.step(LABEL, stage)
        assert {n for what, n in opened.items() if is_part(what.split()[-1])} == {times}


@pytest.mark.parametrize("cells", [200, 10**6])
def test_parts_of_another_length_are_refused(
    parted: Workspace, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signed by its party, and dealt otherwise than its counts say; one file alone is taken."""
    rows = json.loads((place(parted, "ranks") / "manifest.json").read_bytes())
    table = pa.table({n: np.ones(rows["rows"], np.uint8) for n in rows["columns"]})
    with monkeypatch.context() as patch:
        patch.setattr(part_sizes, "CELLS", cells)
        parted.forge("ranks", BANK, BANK, table=table)
    if cells > len(table):
        # As a neighbouring release sends it.
        parted.step(LABEL, "accept")
        return
    with pytest.raises(ArtifactError, match="its files are not those it lists"):
        parted.step(LABEL, "accept")


def test_a_part_with_rows_of_the_next_is_refused(
    parted: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = json.loads((place(parted, "ranks") / "manifest.json").read_bytes())
    table = pa.table({n: np.ones(said["rows"], np.uint8) for n in said["columns"]})
    spans = part_sizes.part_rows("ranks", said["rows"], len(said["columns"]))
    moved = [spans[0] - 1, spans[1] + 1, *spans[2:]]
    with monkeypatch.context() as patch:
        patch.setattr("opboost_ops.exchange.artifact.part_rows", lambda *_: moved)
        parted.forge("ranks", BANK, BANK, table=table)
    with pytest.raises(ArtifactError, match="its table has other rows than it says") as caught:
        parted.step(LABEL, "accept")
    assert getattr(caught.value, "reason", "") == "wrong_row_count"


@pytest.mark.parametrize(
    ("free", "error", "words"),
    [
        (0, ContractError, "What bank sends needs up to"),
        (2000, ArtifactError, "MB in the store's folder, and 0.0 MB are free"),
    ],
)
def test_a_disk_without_room_is_told_before_a_byte_is_written(
    parted: Workspace, free: int, error: type, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(place(parted, "ranks"))
    before = parted.files("exchange")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: Room(10**9, 10**9, free))
        with pytest.raises(error, match=words) as caught:
            parted.step(BANK, "publish")
    message_is_right(caught.value)
    assert parted.files("exchange") == before
    assert not (parted.home(BANK) / "sending").exists()
    parted.step(BANK, "publish")
    parted.step(LABEL, "accept")

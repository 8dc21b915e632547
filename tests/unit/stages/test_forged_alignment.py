"""What another party may send while common people are found, and what becomes of it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pytest

from opboost_ops.alignment import parts as alignment_parts
from opboost_ops.errors import ContractError
from opboost_ops.exchange.rejection import Rejected
from tests.unit.stages.private_federation import private, published, published_parts
from tests.unit.stages.test_whole_runs import NAME

FORGED: dict[str, tuple[str, int, Callable[[np.ndarray], np.ndarray], str]] = {
    "a top bit": ("psi_query", 1, lambda p: p | (np.arange(32) == 31) * np.uint8(128),
                  "malformed"),
    # 2^255 - 1, which is above the field's prime.
    "another name of a point": ("psi_query", 1, lambda p: np.vstack(
        [p[:-1], np.array([255] * 31 + [127], dtype=np.uint8)]), "malformed"),
    "small order": ("psi_query", 1, lambda p: np.vstack([p[:0], 0 * p[:1], p[1:]]), "malformed"),
    "another order": ("psi_query", 1, lambda p: p[::-1], "malformed"),
    "a point twice": ("psi_query", 1, lambda p: np.vstack([p[:1], p[:-1]]), "malformed"),
    "too short": ("psi_query", 1, lambda p: p[:-1], "wrong_row_count"),
    "too long": ("psi_query", 1, lambda p: np.vstack([p, p[-1:] + 1]), "wrong_row_count"),
    "half a point": ("psi_query", 1, lambda p: p.ravel()[:-5], "wrong_row_count"),
    "an answer twice": ("psi_answer", 1, lambda p: np.vstack([p[:1], p[:-1]]), "malformed"),
    "answers missing": ("psi_answer", 1, lambda p: p[:-1], "wrong_row_count"),
    "an answer of small order": ("psi_answer", 1, lambda p: np.vstack([0 * p[:1], p[1:]]),
                                 "malformed"),
    "unsorted digests": ("digests", 1, lambda p: p[::-1], "malformed"),
    "digests missing": ("digests", 1, lambda p: p[:-1], "wrong_row_count"),
    "a table of another size": ("digests", 2, lambda p: p[:-3], "wrong_row_count"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_what_is_no_list_of_points_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    kind, parties, change, reason = FORGED[name]
    workspace = private(tmp_path, monkeypatch, parties)
    workspace.until("psi_answer" if kind == "psi_query" else "align")
    points = published(workspace, kind)
    signer = "a" if kind == "psi_query" else "b0"
    document = {"document": {"keys": [501], "numbers": [0]}} if kind == "digests" else {}
    workspace.forge(kind, "b0", signer, entries=change(points), **document)
    with pytest.raises(Rejected) as caught:
        workspace.step(*(("b0", "psi_answer") if kind == "psi_query" else ("a", "align")))
    assert caught.value.reason == reason


PARTS: dict[str, tuple[str, int, Callable[[list[np.ndarray]], list[np.ndarray]], str]] = {
    "parts swapped": ("psi_query", 1, lambda p: [p[1], p[0], *p[2:]], "malformed"),
    "a part too few": ("psi_query", 1, lambda p: [np.concatenate(p[:2]), *p[2:]], "malformed"),
    "a point less": ("psi_query", 1, lambda p: [p[0][1:], *p[1:]], "wrong_row_count"),
    "an answer in another part": (
        "psi_answer", 1, lambda p: [p[0][1:], np.vstack([p[1], p[0][:1]]), *p[2:]],
        "wrong_row_count",
    ),
    "an answer twice": ("psi_answer", 1, lambda p: [np.vstack([p[1][:1], p[0][1:]]), *p[1:]],
                        "malformed"),
    "tags swapped": ("digests", 1, lambda p: [p[1], p[0], *p[2:]], "wrong_row_count|malformed"),
    "a slot less": ("digests", 2, lambda p: [p[0][1:], *p[1:]], "wrong_row_count"),
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
def test_parts_that_are_not_those_of_a_list_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    kind, parties, change, reason = PARTS[name]
    monkeypatch.setattr(alignment_parts, "PART", 100)
    workspace = private(tmp_path, monkeypatch, parties)
    workspace.until("psi_answer" if kind == "psi_query" else "align")
    signer = "a" if kind == "psi_query" else "b0"
    points = published_parts(workspace, kind)
    assert len(points) == 8
    document = {}
    if kind == "digests":
        keys = [len(p) for p in points] if parties == 1 else [63] * 7 + [60]
        document = {"document": {"keys": keys, "numbers": [0] * 8}}
    workspace.forge(kind, "b0", signer, entries=change(points), **document)
    with pytest.raises(Rejected) as caught:
        workspace.step(*(("b0", "psi_answer") if kind == "psi_query" else ("a", "align")))
    assert caught.value.reason in reason.split("|")


def test_a_part_that_is_changed_in_the_store_or_gone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alignment_parts, "PART", 100)
    workspace = private(tmp_path, monkeypatch)
    workspace.until("psi_answer")
    place = workspace.folder / "exchange" / NAME / workspace.run / "psi_query" / "b0"
    last = sorted(place.glob("entries-*"))[-1]
    whole = last.read_bytes()
    for damaged in (whole[:-1] + bytes([whole[-1] ^ 1]), whole[:-1], whole + b"x"):
        last.write_bytes(damaged)
        with pytest.raises(Rejected) as caught:
            workspace.step("b0", "psi_answer")
        assert caught.value.reason == "bad_digest"
    last.unlink()
    with pytest.raises(Rejected, match="its files are not those it lists"):
        workspace.step("b0", "psi_answer")
    last.write_bytes(whole)
    workspace.step("b0", "psi_answer")


@pytest.mark.parametrize(("parties", "column"), [(1, "position"), (2, "look")])
@pytest.mark.parametrize("fault", ["twice", "unknown", "the common message", "strangers alone"])
def test_an_alignment_that_names_nobody_or_somebody_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parties: int, column: str, fault: str
) -> None:
    workspace = private(tmp_path, monkeypatch, parties)
    workspace.until("preprocess")
    if parties == 1:
        rows = feather.read_table(workspace.home("b0") / "digest_order.arrow")["row"].to_numpy()
        canary = int(np.flatnonzero(rows == 500)[0])
        values: list[object] = [int(np.flatnonzero(rows == row)[0]) for row in range(500)]
        named = {"twice": values[1], "unknown": 501, "the common message": canary}
        values[0] = named.get(fault, 501)
        if fault == "strangers alone":
            values = list(range(501, 1001))
        table = pa.table({column: pa.array(values, pa.uint16())})
    else:
        own = feather.read_table(workspace.home("b0") / "look_order.arrow")
        values = own["look"].to_pylist()
        values[0] = values[1] if fault == "twice" else bytes(16)
        if fault == "strangers alone":
            # Before the first of its own people, all of them.
            values = [number.to_bytes(16, "big") for number in range(500)]
        table = pa.table({column: pa.array(values, pa.binary(16))})
    document = workspace.home_json("a", "alignment")
    workspace.forge("alignment", "b0", "a", table=table, document=document)
    with pytest.raises(ContractError, match="names a row twice, or a row that the table does not"):
        workspace.step("b0", "preprocess")

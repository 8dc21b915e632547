"""The sealed release step by step: retries, parts, months, faults, and what the ledgers say."""

import shutil
from collections import namedtuple
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from opboost_ops.errors import ContractError, OpBoostError
from opboost_ops.exchange.rejection import Reason, Rejected
from opboost_ops.exchange.sealed import curve, month_keys, oprf, parts
from tests.federation import FIRST_RUN, Workspace
from tests.integration.pipeline.steps.test_whole_runs import NAME, dataset
from tests.party_state import entries_of

NOVEMBER = datetime(2026, 11, 15, tzinfo=UTC)

#: People in each table.
PEOPLE = 500

Made = Callable[[int], Workspace]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Workspace]:
    """Federations of one and of two feature holders. Tests copy them."""
    folder = tmp_path_factory.mktemp("written")
    return {
        count: Workspace.write(folder / str(count), dataset("binary", parties=count))
        for count in (1, 2)
    }


@pytest.fixture
def made(written: dict[int, Workspace], tmp_path: Path) -> Made:
    """A copy of the one with so many feature holders."""

    def copy(count: int) -> Workspace:
        return written[count].copy(tmp_path / f"federation{count}", FIRST_RUN)

    return copy


def on_disk(workspace: Workspace) -> None:
    """Let no party hold more than 40 of its people in memory."""
    for party in workspace.declared.parties:
        workspace.declare(f"{party}/site.yaml", block_rows=40)


def place(workspace: Workspace, kind: str, party: str = "b0") -> Path:
    return workspace.folder / "exchange" / NAME / workspace.run / kind / party


def integers(home: Path, name: str) -> pl.DataFrame:
    return pl.read_ipc((home / f"{name}.arrow").read_bytes()).cast(pl.Int64)


@pytest.mark.parametrize("size", [pytest.param(1 << 20, marks=pytest.mark.slow), 100])
def test_however_tables_are_sorted_kept_and_cut_the_same_bytes_leave(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Sorted in memory here and on the disk there; with a retry of every stage that sends."""
    monkeypatch.setattr(parts, "PART", size)
    workspace = made(2)
    twin = workspace.copy(tmp_path / "twin", FIRST_RUN)
    on_disk(twin)
    for party in ("a", "b0", "b1"):
        twin.edit_table(party, lambda t: t.sample(fraction=1, shuffle=True, seed=3))
    workspace.until("assemble")
    twin.until("assemble")
    assert twin.files("exchange") == workspace.files("exchange")
    for party, stage in (("a", "psi_query"), ("b0", "digest_ids"),
                         ("b0", "check_release"), ("b0", "seal"), ("b0", "psi_answer"),
                         ("a", "open_rows")):  # fmt: skip
        twin.step(party, stage)
    assert twin.files("exchange") == workspace.files("exchange")
    for kind in ("psi_query", "psi_answer", "shares", "ranks"):
        cut = sum(path.name.startswith("entries") for path in place(workspace, kind).iterdir())
        assert cut == (1 if size > PEOPLE else 8), kind
    for each in (workspace, twin):
        for holder in ("b0", "b1"):
            ranks = integers(each.home(holder), "ranks")[each.common_rows(holder)]
            opened = integers(each.home("a"), f"opened-{holder}")
            assert opened.equals(ranks)
            assert opened.height == PEOPLE
        # Keys and points are their owner's alone.
        own = [*each.folder.rglob("*.key"), *each.folder.rglob("*.points")]
        assert any(path.suffix == ".points" for path in own)
        assert not [path for path in own if path.stat().st_mode & 0o077]


@pytest.fixture(scope="module")
def cut_once(written: dict[int, Workspace], tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """One feature holder, artifacts of several parts each, just before they are opened."""
    copy = written[1].copy(tmp_path_factory.mktemp("cut") / "federation", FIRST_RUN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "PART", 100)
        copy.until("open_rows")
    return copy


def lost(folder: Path) -> None:
    (folder / "entries-0001.bin.enc").unlink()


def twice(folder: Path) -> None:
    shutil.copy(folder / "entries-0000.bin.enc", folder / "entries-0001.bin.enc")


def shorter(folder: Path) -> None:
    file = folder / "entries-0001.bin.enc"
    file.write_bytes(file.read_bytes()[:-1])


def one_more(folder: Path) -> None:
    shutil.copy(folder / "entries-0000.bin.enc", folder / "entries-0009.bin.enc")


@pytest.mark.parametrize("kind", ["psi_answer", "ranks"])
@pytest.mark.parametrize(
    ("change", "reason"),
    [(lost, "malformed"), (twice, "bad_digest"), (shorter, "bad_digest"), (one_more, "malformed")],
)
def test_a_part_that_is_not_as_it_must_be_is_refused(
    cut_once: Workspace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    change: Callable[[Path], None],
    reason: Reason,
) -> None:
    monkeypatch.setattr(parts, "PART", 100)
    copy = cut_once.copy(tmp_path / "federation", FIRST_RUN)
    change(place(copy, kind))
    with pytest.raises(Rejected) as caught:
        copy.step("a", "open_rows")
    assert caught.value.reason == reason
    assert not (copy.home("a") / "opened-b0.arrow").exists()


def test_a_run_lays_out_one_table_of_shares_for_ever(made: Made) -> None:
    """Of two with the same exponent, who is in both could be seen by anyone who has the points."""
    workspace = made(2)
    workspace.until("preprocess")
    # The home is lost, the store lost what had come, and the table is another one.
    for path in workspace.home("b0").iterdir():
        kept = ("table.json", "psi_epoch.json", "acceptance.json", "admitted.json")
        if path.is_file() and path.name not in kept:
            path.unlink()
    shutil.rmtree(place(workspace, "shares"))
    workspace.edit_table("b0", lambda t: t.head(400))
    workspace.step("b0", "check_table")
    with pytest.raises(ContractError, match="laid out another table in this run"):
        workspace.step("b0", "digest_ids")
    assert "shares/b0" not in workspace.published()


def test_every_party_compares_the_month_with_its_own_clock(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = [NOVEMBER]
    monkeypatch.setattr(month_keys, "now", lambda: told[-1])
    workspace = made(2)
    workspace.until("digest_ids", "b0")
    told.append(datetime(2026, 12, 2, 1, tzinfo=UTC))
    with pytest.raises(ContractError, match="month 2026-11, which by the clock of b0 is over"):
        workspace.step("b0", "digest_ids")
    assert "shares/b0" not in workspace.published()
    told.append(NOVEMBER)
    workspace.step("b0", "digest_ids")
    key = workspace.site("b0").month_keys / "2026-11.key"
    assert key.exists()
    # What has begun may end, as long as the month's key is there.
    told.append(datetime(2026, 12, 2, 23, tzinfo=UTC))
    workspace.step("b0", "psi_answer")
    assert "psi_answer/b0" in workspace.published()
    told.append(datetime(2026, 12, 4, tzinfo=UTC))
    with pytest.raises(ContractError, match="month 2026-11, which by the clock of b1"):
        workspace.step("b1", "digest_ids")
    with pytest.raises(ContractError, match="month 2026-11, which by the clock of b0"):
        workspace.step("b0", "psi_answer")
    assert not key.exists()


@pytest.mark.parametrize("count", [1, 2])
def test_nobody_in_common_is_told_from_keys_that_differ(made: Made, count: int) -> None:
    workspace = made(count)
    workspace.edit_table("b0", lambda t: t.with_columns(id="x" + pl.col("id")))
    step, error = workspace.first_failure()
    assert step == "a.open_rows"
    assert "No ID is common to all parties. Keys and versions agree." in str(error)


def test_keys_or_versions_that_differ_are_told(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = made(1)
    workspace.until("digest_ids", "b0")
    with monkeypatch.context() as patch:
        real = oprf.domain_tag
        patch.setattr(oprf, "domain_tag", lambda name: real(name) + b"2")
        for stage in ("digest_ids", "preprocess", "desensitize", "rank", "check_release", "seal"):
            workspace.step("b0", stage)
    workspace.step("b0", "psi_answer")
    with pytest.raises(ContractError, match="keys or versions of the parties differ"):
        workspace.step("a", "open_rows")


@pytest.mark.parametrize("party", ["a", "b0"])
def test_ids_that_could_be_written_otherwise_stop_at_home(made: Made, party: str) -> None:
    workspace = made(1)
    odd = pl.when(pl.int_range(pl.len()) < 3).then(pl.lit("cafe\u0301") + pl.col("id"))
    workspace.edit_table(party, lambda t: t.with_columns(id=odd.otherwise(pl.col("id"))))
    step, error = workspace.first_failure()
    assert step in ("a.psi_query", "b0.digest_ids")
    assert step.startswith(party)
    assert "3 are not in Unicode's form NFC" in str(error)
    assert "cafe" not in str(error)


def test_a_second_query_in_one_run_is_refused(made: Made) -> None:
    workspace = made(1)
    workspace.until("psi_answer")
    workspace.step("b0", "psi_answer")
    points = b"".join(sorted(curve.hash_to_curve([b"%d" % i for i in range(PEOPLE + 1)], b"x")))
    entries = np.frombuffer(points, dtype=np.uint8).reshape(-1, 32)
    workspace.forge("psi_query", "b0", "a", entries=entries)
    with pytest.raises(Rejected) as caught:
        workspace.step("b0", "psi_answer")
    assert caught.value.reason == "superseded"


def test_a_run_about_too_few_common_people_trains_nothing(made: Made) -> None:
    workspace = made(1)
    rules = {"least_common": PEOPLE + 1}
    workspace.declare("a/policy.yaml", alignment=rules)
    step, error = workspace.first_failure()
    assert step == "a.open_rows"
    assert isinstance(error, ContractError)
    assert "requires 501 common people" in str(error)
    assert "split_request/b0" not in workspace.published()
    assert [entry.kind for entry in entries_of(workspace, "a")].count("open_rows") == 1


def test_the_ledgers_say_exactly_who_learns_what(made: Made) -> None:
    workspace = made(2)
    workspace.until("assemble")

    def lines(party: str) -> dict[str, list[tuple[int, str]]]:
        found: dict[str, list[tuple[int, str]]] = {}
        for line in entries_of(workspace, party):
            if not line.receiver.startswith("everyone") and line.account == "exact":
                found.setdefault(line.kind, []).append((line.rows, line.discloses))
        return found

    holder = lines("b0")
    ((rows, answered),) = holder["psi_answer"]
    assert rows == PEOPLE
    assert "whether all parties have them" in answered
    assert "about 500 different people in" in answered
    ((rows, shares),) = holder["shares"]
    assert rows == PEOPLE
    assert "nothing about people whom the label holder has not queried" in shares
    asked = lines("a")["psi_query"]
    assert len(asked) == 2
    assert all("how many people are queried" in text for _, text in asked)


def test_a_party_without_an_encryption_key_has_no_part_in_it(made: Made) -> None:
    workspace = made(2)
    workspace.edit_yaml("federation.yaml", lambda d: d["parties"]["b1"].pop("encryption_key"))
    with pytest.raises(OpBoostError, match="encryption_key"):
        workspace.open()


def test_a_disk_that_cannot_hold_an_answer_is_told_before_its_first_point(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = made(1)
    workspace.until("psi_answer")
    usage = namedtuple("usage", "total free")
    # Points that are sent, and blocks that are kept, of all people and of the common message.
    enough = 2 * 32 * (PEOPLE + 1)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: usage(2**50, enough - 1))
        with pytest.raises(ContractError, match="in its home folder"):
            workspace.step("b0", "psi_answer")
    assert not list((workspace.home("b0") / "psi").glob("answer*"))
    assert "psi_answer/b0" not in workspace.published()
    workspace.step("b0", "psi_answer")


@pytest.mark.parametrize("blocks", [None, 40])
def test_a_disk_that_cannot_hold_sealed_rows_is_told_before_the_first(
    made: Made, monkeypatch: pytest.MonkeyPatch, blocks: int | None
) -> None:
    workspace = made(1)
    if blocks is not None:
        on_disk(workspace)
    workspace.until("seal", "b0")
    usage = namedtuple("usage", "total free")
    # A tag of ten bytes and a row of one at least, of everybody and of the common message; where
    # rows wait on the disk to be sorted, 16 and one more.
    least = (10 + 1 + (0 if blocks is None else 16 + 1)) * (PEOPLE + 1)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: usage(2**50, least - 1))
        with pytest.raises(ContractError, match="in its home folder"):
            workspace.step("b0", "seal")
    assert "ranks/b0" not in workspace.published()
    workspace.step("b0", "seal")
    assert "ranks/b0" in workspace.published()

"""Private alignment beyond what a party holds in memory: what waits, what is kept, and kills."""

from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import pytest

from opboost_ops.alignment import parts as alignment_parts
from opboost_ops.alignment.engine import Engine, Keep
from opboost_ops.config.loading import load_policy, load_site
from opboost_ops.errors import ContractError
from opboost_ops.run import progress
from opboost_ops.run.publication import Publisher
from opboost_ops.run.room import waiting
from opboost_ops.stages import psi_session
from tests.federation import FIRST_RUN, Workspace
from tests.unit.stages.private_federation import on_disk, private
from tests.unit.stages.test_whole_runs import dataset


@pytest.mark.parametrize(
    ("stage", "parties", "size", "blocks"),
    [
        ("psi_query", 1, 1 << 20, 6),
        ("digest_ids", 1, 1 << 20, 6),
        ("psi_answer", 1, 1 << 20, 6),
        ("align", 1, 1 << 20, 6),
        # What waits for its part was on the disk, and is gone; the twin holds it in memory.
        ("psi_query", 1, 100, 6),
        ("digest_ids", 2, 100, 6),
        # Of each of eight parts, and of two holders.
        pytest.param("psi_answer", 1, 100, 8, marks=pytest.mark.slow),
        pytest.param("align", 2, 100, 16, marks=pytest.mark.slow),
    ],
)
def test_a_task_that_is_killed_goes_on_and_ends_with_the_same_bytes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stage: str,
    parties: int,
    size: int,
    blocks: int,
) -> None:
    monkeypatch.setattr(alignment_parts, "PART", size)
    workspace = private(tmp_path, monkeypatch, parties)
    twin = workspace.copy(tmp_path / "twin", FIRST_RUN)
    if size == 100:
        on_disk(workspace)
    party = "a" if stage in ("psi_query", "align") else "b0"

    class Killed(BaseException):
        """As a signal is: nothing catches it."""

    far = []

    def small(kill: bool) -> Callable[..., Engine]:
        def made(_processes: int, keep: Keep, tell: Callable[[str, int, int], None]) -> Engine:
            def told(role: str, done: int, of: int) -> None:
                tell(role, done, of)
                far.append(progress.read(workspace.home(party), stage))
                if kill and done >= 200:
                    raise Killed

            return Engine(1, keep, told, block=100)

        return made

    def kept() -> int:
        return len(list((workspace.home(party) / "psi").glob("*")))

    workspace.until(stage, party)
    before = kept()
    monkeypatch.setattr(psi_session, "Engine", small(kill=True))
    with pytest.raises(Killed):
        workspace.step(party, stage)
    # Its own pages could see how far it was, and nothing of it is left.
    assert far[0] is not None and far[0].what.startswith("points (") and 0 < far[0].done <= 100
    assert progress.read(workspace.home(party), stage) is None
    assert before + 2 <= kept() < before + blocks
    monkeypatch.setattr(psi_session, "Engine", small(kill=False))
    workspace.step(party, stage)
    assert kept() == before + blocks
    monkeypatch.undo()
    with monkeypatch.context() as patch:
        patch.setattr(alignment_parts, "PART", size)
        twin.known_to(patch)
        twin.until(stage, party)
        twin.step(party, stage)
    assert twin.files("exchange") == workspace.files("exchange")


def test_of_points_finished_blocks_are_kept_for_their_owner_alone_and_nothing_that_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alignment_parts, "PART", 100)
    workspace = private(tmp_path, monkeypatch, 2)
    on_disk(workspace)
    workspace.until("preprocess")
    for party in ("a", "b0", "b1"):
        folders = [path for path in workspace.home(party).glob("psi*") if path.is_dir()]
        assert [path.name for path in folders] == ["psi"]
        modes = [path.stat().st_mode & 0o077 for path in folders[0].iterdir()]
        assert modes
        assert not any(modes)


def test_a_disk_that_cannot_hold_an_answer_is_told_before_its_first_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = private(tmp_path, monkeypatch)
    workspace.until("psi_answer")
    usage = namedtuple("Usage", "total free")
    # Points that are sent, and blocks that are kept, of 500 people and of the common message.
    for free in (2 * 32 * 501 - 1, 2 * 32 * 501):
        monkeypatch.setattr(
            "opboost_ops.exchange.spool.shutil.disk_usage",
            lambda _, free=free: usage(2**50, free),
        )
        if free % 2:
            with pytest.raises(ContractError, match="needs up to 0 MB in its home folder"):
                workspace.step("b0", "psi_answer")
            assert not list((workspace.home("b0") / "psi").glob("answer*"))
            assert "psi_answer/b0" not in workspace.published()
        else:
            workspace.step("b0", "psi_answer")


def test_what_waits_on_the_disk_is_more_where_more_parties_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {}
    for way, parties in (("keyed", 1), ("private", 1), ("private", 2)):
        made = dataset("binary", parties=parties)
        workspace = Workspace.write(tmp_path / f"{way}{parties}", made, alignment=way)
        on_disk(workspace)
        workspace.known_to(monkeypatch)
        for party in ("a", "b0"):
            site, policy = (
                load(workspace.folder / party / f"{name}.yaml")
                for name, load in (("site", load_site), ("policy", load_policy))
            )
            me = Publisher(party, site, policy, workspace.store)
            found[way, parties, party] = waiting(me, workspace.declared, "train")
    assert found["private", 1, "a"] - found["keyed", 1, "a"] == (96 + 32 - 64) * 500
    assert found["private", 2, "a"] - found["private", 1, "a"] == 32 * 500
    assert found["private", 1, "b0"] - found["keyed", 1, "b0"] == (96 - 64) * 500
    assert found["private", 2, "b0"] <= found["private", 1, "b0"]


def test_an_order_of_the_table_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same people in another order: everything that is published is the same to the byte.

    It is sorted in memory here, and on the disk there.
    """
    workspace = private(tmp_path, monkeypatch, 2)
    twin = workspace.copy(tmp_path / "twin", FIRST_RUN)
    on_disk(twin)
    for party in ("a", "b0", "b1"):
        twin.edit_table(party, lambda t: t.sample(fraction=1, shuffle=True, seed=3))
    workspace.until("preprocess")
    with monkeypatch.context() as patch:
        twin.known_to(patch)
        twin.until("preprocess")
    assert twin.files("exchange") == workspace.files("exchange")

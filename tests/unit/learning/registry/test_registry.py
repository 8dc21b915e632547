"""Model versions: immutable, whole or absent, one champion."""

import threading
from pathlib import Path

import pytest

from opboost_ops.errors import ContractError
from opboost_ops.learning.registry.registry import Registry

FILES = {"model.txt": b"tree", "card.json": b"{}"}


def test_a_version_is_registered_and_found(tmp_path: Path) -> None:
    registry = Registry(tmp_path, "toy")
    folder = registry.register("v1", FILES)
    assert folder == tmp_path / "toy" / "v1"
    found = registry.files("v1")
    found.pop("sha256.json")
    assert found == FILES
    assert registry.versions() == ["v1"]
    assert not list((tmp_path / "toy").glob(".part-*"))


def test_the_same_again_is_fine_and_other_content_is_not(tmp_path: Path) -> None:
    registry = Registry(tmp_path, "toy")
    registry.register("v1", FILES)
    registry.register("v1", FILES)
    for other in ({**FILES, "model.txt": b"bush"}, {"model.txt": b"tree"}, {**FILES, "more": b""}):
        with pytest.raises(ContractError, match="exists already, with other content"):
            registry.register("v1", other)
    assert {name: registry.files("v1")[name] for name in FILES} == FILES
    assert registry.versions() == ["v1"]


def test_files_of_a_version_are_read_only(tmp_path: Path) -> None:
    folder = Registry(tmp_path, "toy").register("v1", FILES)
    assert all(path.stat().st_mode & 0o222 == 0 for path in folder.iterdir())


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    registry = Registry(tmp_path, "toy")
    with pytest.raises(OSError, match="No such file"):
        registry.register("v1", {"model.txt": b"x", "no/such/folder": b"y"})
    assert registry.versions() == []
    assert list((tmp_path / "toy").iterdir()) == []


def test_of_two_writers_one_wins_whole(tmp_path: Path) -> None:
    registry = Registry(tmp_path, "toy")
    start, refused = threading.Barrier(6), []

    def write(i: int) -> None:
        start.wait()
        try:
            registry.register("v1", {"a": bytes([i]) * 5000, "b": bytes([i]) * 5000})
        except ContractError:
            refused.append(i)

    threads = [threading.Thread(target=write, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 5
    files = registry.files("v1")
    assert files["a"] == files["b"]


def test_the_champion(tmp_path: Path) -> None:
    registry = Registry(tmp_path, "toy")
    assert registry.champion() is None
    registry.register("v1", FILES)
    assert registry.champion() is None
    registry.set_champion("v1")
    assert Registry(tmp_path, "toy").champion() == "v1"
    registry.register("v2", FILES)
    assert registry.champion() == "v1"
    with pytest.raises(ContractError, match="no model version v3"):
        registry.set_champion("v3")
    assert registry.champion() == "v1"
    registry.set_champion("v2")
    assert registry.champion() == "v2"
    assert registry.versions() == ["v1", "v2"]


def test_a_crash_before_the_change_leaves_the_previous_champion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = Registry(tmp_path, "toy")
    registry.register("v1", FILES)
    registry.set_champion("v1")
    registry.register("v2", FILES)

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", crash)
        with pytest.raises(KeyboardInterrupt):
            registry.set_champion("v2")
    assert registry.champion() == "v1"
    assert registry.versions() == ["v1", "v2"]
    registry.set_champion("v2")
    assert registry.champion() == "v2"


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"version": 1}', '{"version": "v9"}', "v1"])
def test_a_damaged_champion_file_says_so(tmp_path: Path, text: str) -> None:
    registry = Registry(tmp_path, "toy")
    registry.register("v1", FILES)
    (tmp_path / "toy" / "champion.json").write_text(text)
    with pytest.raises(ContractError, match=r"champion\.json is damaged"):
        registry.champion()


@pytest.mark.parametrize("name", ["model.txt", "sha256.json"])
def test_a_damaged_version_says_so_before_anything_reads_it(tmp_path: Path, name: str) -> None:
    registry = Registry(tmp_path, "toy")
    path = registry.register("v1", FILES) / name
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ContractError, match="v1 is damaged"):
        registry.files("v1")


def test_each_step_back_leads_further_back(tmp_path: Path) -> None:
    """A second `rollback` led to the version that the first one had left."""
    registry = Registry(tmp_path, "toy")
    for version in "abcd":
        registry.register(version, FILES)
        registry.decide(version, True, "better")
    assert [registry.rollback("drift") for _ in range(3)] == ["c", "b", "a"]
    with pytest.raises(ContractError, match="no champion before the current one"):
        registry.rollback("drift")
    # A name leads anywhere, and from there the way back goes on.
    assert registry.rollback("it was no drift", "d") == "d"
    assert registry.rollback("it was") == "a"
    registry.promote("b", "by hand")
    assert registry.rollback("drift") == "a"


def test_a_version_that_was_tried_twice_is_met_twice_on_the_way_back(tmp_path: Path) -> None:
    registry = Registry(tmp_path, "toy")
    for version in "ab":
        registry.register(version, FILES)
        registry.promote(version, "by hand")
    registry.promote("a", "by hand")
    assert [registry.rollback("drift") for _ in range(2)] == ["b", "a"]

"""The store: each folder once, whole or not at all."""

import threading
from pathlib import Path

import pytest

from opboost_ops.errors import ArtifactError, ConfigError
from opboost_ops.exchange.store import THROWAWAY, LocalStore, open_store

FILES = {"manifest.json": b"{}", "manifest.sig": b"s", "table.parquet": b"t"}
PLACE = "toy/run/ranks/bank"


def test_put_once_is_idempotent(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put_once(PLACE, FILES)
    before = (tmp_path / PLACE / "manifest.json").stat().st_mtime_ns
    store.put_once(PLACE, FILES)
    assert store.get(PLACE) == FILES
    assert (tmp_path / PLACE / "manifest.json").stat().st_mtime_ns == before
    assert not list((tmp_path / PLACE).glob(".*"))


def test_put_once_says_whether_it_was_new(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    assert store.put_once(PLACE, FILES) is True
    assert store.put_once(PLACE, FILES) is False


@pytest.mark.parametrize("name", FILES)
def test_other_content_is_a_conflict_and_changes_nothing(tmp_path: Path, name: str) -> None:
    store = LocalStore(tmp_path)
    store.put_once(PLACE, FILES)
    with pytest.raises(ArtifactError, match="already published"):
        store.put_once(PLACE, {**FILES, name: b"other"})
    assert store.get(PLACE) == FILES


def test_nothing_is_seen_before_the_manifest(tmp_path: Path) -> None:
    """A writer that died before the manifest has published nothing; its retry completes it."""
    store = LocalStore(tmp_path)
    (tmp_path / PLACE).mkdir(parents=True)
    (tmp_path / PLACE / "table.parquet").write_bytes(FILES["table.parquet"])
    assert store.get(PLACE) is None
    assert store.list("toy") == []
    store.put_once(PLACE, FILES)
    assert store.get(PLACE) == FILES


def test_of_two_writers_one_wins_whole(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    versions = [{name: bytes([i]) * 1000 for name in FILES} for i in range(8)]
    start, failures = threading.Barrier(8), []

    def write(files: dict[str, bytes]) -> None:
        start.wait()
        try:
            store.put_once(PLACE, files)
        except ArtifactError:
            failures.append(files)

    threads = [threading.Thread(target=write, args=(files,)) for files in versions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(failures) >= 7
    found = store.get(PLACE)
    assert found is None or found in versions


def test_list_and_wait(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put_once("toy/b/ranks/x", FILES)
    store.put_once("toy/a/ranks/x", FILES)
    store.put_once("other/a/ranks/x", FILES)
    assert store.list("toy") == ["toy/a/ranks/x", "toy/b/ranks/x"]
    assert len(store.list("")) == 3
    assert store.wait("toy/a/ranks/x", 0) == FILES
    with pytest.raises(ArtifactError, match="nothing was published"):
        store.wait("toy/c/ranks/x", 0.01)


def test_wait_sees_what_comes_later(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    timer = threading.Timer(0.1, store.put_once, (PLACE, FILES))
    timer.start()
    assert store.wait(PLACE, 10) == FILES
    timer.join()


@pytest.mark.parametrize("place", ["../outside", "a/../../b", "/etc", "a//b", ".", ""])
def test_places_stay_inside(tmp_path: Path, place: str) -> None:
    store = LocalStore(tmp_path / "store")
    with pytest.raises(ArtifactError, match="not a place"):
        store.put_once(place, FILES)
    with pytest.raises(ArtifactError, match="not a place"):
        store.get(place)
    assert not list(tmp_path.rglob("manifest.json"))


def test_open_store(tmp_path: Path) -> None:
    (tmp_path / THROWAWAY).touch()
    assert open_store(str(tmp_path)).throwaway is True
    assert open_store(f"file://{tmp_path}").throwaway is True
    assert open_store(str(tmp_path / "other")).throwaway is False
    with pytest.raises(ConfigError, match="gopher"):
        open_store("gopher://user:password@host/x")

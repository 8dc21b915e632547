"""The store, in a folder and in S3: each artifact once, whole or not at all."""

import contextlib
import errno
import hashlib
import multiprocessing
import os
import signal
import stat
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from opboost_ops.errors import ArtifactError, ConfigError
from opboost_ops.exchange.store.store import THROWAWAY, LocalStore, ObjectStore, Store, open_store
from opboost_ops.tables.s3 import S3Bucket

FILES = {"manifest.json": b"{}", "manifest.sig": b"s", "table.parquet": b"t"}
PLACE = "toy/run/ranks/bank"


def version(number: int) -> dict[str, bytes]:
    """An artifact whose files all tell who wrote them."""
    return {name: hashlib.sha256(b"%d" % number).digest() * 500 for name in FILES}


def test_put_once_is_idempotent_and_says_so(store: Store, url: str) -> None:
    assert store.get(PLACE) is None
    assert store.put_once(PLACE, FILES) is True
    assert store.put_once(PLACE, FILES) is False
    assert open_store(url).put_once(PLACE, dict(reversed(FILES.items()))) is False
    assert open_store(url).get(PLACE) == FILES
    assert store.garbage(0) == []


def test_a_probe_of_several_writers_passes_and_leaves_nothing(store: Store) -> None:
    assert store.keeps_first("toy") is True
    assert store.garbage(0) == store.list("") == store.runs("toy") == []
    assert store.put_once(PLACE, FILES) is True


def test_runs_and_times_are_those_of_what_is_published(store: Store) -> None:
    run, place = "0" * 16, f"toy/{'0' * 16}/plan/shop"
    assert store.runs("toy") == []
    assert store.written(place) is None
    before = time.time()
    for reference in (place, f"toy/{'f' * 16}/plan/shop", "toy/no-run/plan/shop", "toys/x/y/z"):
        store.put_once(reference, FILES)
    assert store.runs("toy") == [run, "f" * 16]
    at = store.written(place)
    assert at is not None and abs(at - before) < 60
    assert store.written(f"{place}s") is None


def test_the_first_identity_of_a_store_stays_and_is_no_artifact(store: Store, url: str) -> None:
    assert store.identity() is None
    store.set_identity("0" * 32)
    open_store(url).set_identity("1" * 32)
    assert open_store(url).identity() == store.identity() == "0" * 32
    assert store.list("") == []
    assert store.garbage(0) == []
    assert store.collect(0) == []
    assert store.identity() == "0" * 32


@pytest.mark.parametrize("name", FILES)
def test_other_content_is_a_conflict_and_changes_nothing(store: Store, name: str) -> None:
    store.put_once(PLACE, FILES)
    missing = {key: raw for key, raw in FILES.items() if key != name or key == "manifest.json"}
    for other in ({**FILES, name: b"other"}, {**FILES, "more": b""}, {**missing, "x": b""}):
        with pytest.raises(ArtifactError, match="already published"):
            store.put_once(PLACE, other)
    assert store.get(PLACE) == FILES
    assert store.list("") == [PLACE]


def test_what_has_no_manifest_is_no_artifact(store: Store) -> None:
    for files in ({"table.parquet": b"t"}, {**FILES, "../x": b""}, {**FILES, ".hidden": b""}):
        with pytest.raises(ArtifactError, match="not an artifact"):
            store.put_once(PLACE, files)
    assert store.get(PLACE) is None


def at_once(url: str, contents: Sequence[Mapping[str, bytes]]) -> list[bool | None]:
    """What each of several writers is told; None to one that is refused."""
    start = threading.Barrier(len(contents))

    def write(files: Mapping[str, bytes]) -> bool | None:
        own = open_store(url)
        start.wait()
        with contextlib.suppress(ArtifactError):
            return own.put_once(PLACE, files)
        return None

    with ThreadPoolExecutor(len(contents)) as pool:
        return list(pool.map(write, contents))


def test_of_many_threads_one_wins_whole(url: str) -> None:
    told = at_once(url, [version(number) for number in range(8)])
    assert (told.count(True), told.count(None)) == (1, 7)
    assert open_store(url).get(PLACE) == version(told.index(True))
    assert open_store(url).garbage(0) == []


def killed(url: str, call: int, place: str = PLACE) -> None:
    """Dies by SIGKILL just before that call of those that make something lasting."""
    calls = 0

    def deadly(function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == call:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args)

        return counted

    os.fsync = deadly(os.fsync)
    S3Bucket.put = deadly(S3Bucket.put)  # type: ignore[method-assign]
    S3Bucket.put_new = deadly(S3Bucket.put_new)  # type: ignore[method-assign]
    open_store(url).put_once(place, FILES)


def kill(url: str, call: int, place: str = PLACE) -> int | None:
    writer = multiprocessing.get_context("fork").Process(target=killed, args=(url, call, place))
    writer.start()
    writer.join(60)
    return writer.exitcode


@pytest.mark.parametrize("call", [1, 2, 3, 4])
def test_a_writer_killed_at_any_file_leaves_nothing_to_see(url: str, call: int) -> None:
    assert kill(url, call) == -9
    store = open_store(url)
    assert store.get(PLACE) is None
    assert store.list("") == []
    assert store.put_once(PLACE, FILES) is True
    assert store.get(PLACE) == FILES
    assert store.list("") == [PLACE]


def test_collect_takes_what_a_crash_left_and_nothing_else(url: str) -> None:
    # In S3 the window before what is old enough is hours: this store has none.
    store = open_store(url)
    store.put_once(PLACE, FILES)
    if isinstance(store, ObjectStore):
        store = ObjectStore(store._bucket, longest_write=0)
    for other in ("toy/run/ranks/shop", PLACE):
        kill(url, 3, other)
    assert store.garbage(3600) == []
    assert store.collect(3600) == []
    found = store.garbage(0)
    assert len(found) == 1
    assert found[0].startswith("toy/run/ranks/")
    assert store.collect(0) == found
    assert store.garbage(0) == store.collect(0) == []
    assert store.get(PLACE) == FILES


def test_remove_run_takes_the_whole_run_only(store: Store) -> None:
    store.put_once("toy/a/ranks/x", FILES)
    store.put_once("toy/a/plan/y", FILES)
    store.put_once("toy/ab/ranks/x", FILES)
    assert store.remove_run("toy", "a") == 2
    assert store.list("") == ["toy/ab/ranks/x"]
    assert store.get("toy/a/plan/y") is None
    assert store.remove_run("toy", "a") == 0
    assert store.put_once("toy/a/ranks/x", version(1)) is True
    for federation, run in (("toy", ""), ("toy", "."), ("toy", "a/ranks"), ("", "a")):
        with pytest.raises(ArtifactError):
            store.remove_run(federation, run)
    assert store.list("toy") == ["toy/a/ranks/x", "toy/ab/ranks/x"]


def test_readers_beside_writers_and_removals_see_whole_artifacts(url: str) -> None:
    """Rounds of publishing and removing; a reader sees one version or none, never a mixture."""
    seen: set[bytes] = set()
    done = threading.Event()
    wrong: list[object] = []

    def read() -> None:
        own = open_store(url)
        while not done.is_set():
            files = own.get(PLACE)
            if files is not None:
                seen.update(files.values())
                if set(files) != set(FILES) or len(set(files.values())) != 1:
                    wrong.append(files)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    store = open_store(url)
    for number in range(30 if isinstance(store, LocalStore) else 8):
        store.put_once(PLACE, version(number))
        store.remove_run("toy", "run")
    store.put_once(PLACE, version(0))
    while not seen:
        pass
    done.set()
    for reader in readers:
        reader.join()
    assert wrong == []


def test_list_and_wait(store: Store) -> None:
    store.put_once("toy/b/ranks/x", FILES)
    store.put_once("toy/a/ranks/x", FILES)
    store.put_once("other/a/ranks/x", FILES)
    assert store.list("toy") == ["toy/a/ranks/x", "toy/b/ranks/x"]
    assert store.list("toy/a/ranks/x") == ["toy/a/ranks/x"]
    assert store.list("to") == store.list("nothing") == []
    assert len(store.list("")) == 3
    assert store.wait("toy/a/ranks/x", 0) == FILES
    with pytest.raises(ArtifactError, match="nothing was published"):
        store.wait("toy/c/ranks/x", 0.01)


def test_wait_sees_what_comes_later(store: Store, url: str) -> None:
    timer = threading.Timer(0.1, open_store(url).put_once, (PLACE, FILES))
    timer.start()
    assert store.wait(PLACE, 10) == FILES
    timer.join()


@pytest.mark.parametrize("place", ["../outside", "a/../../b", "/etc", "a//b", ".", "", "a/.part-x"])
def test_places_stay_inside(store: Store, place: str) -> None:
    with pytest.raises(ArtifactError, match="not a place"):
        store.put_once(place, FILES)
    with pytest.raises(ArtifactError, match="not a place"):
        store.get(place)
    assert store.list("") == []


def test_a_folder_of_an_unknown_writer_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / PLACE).mkdir(parents=True)
    (tmp_path / PLACE / "table.parquet").write_bytes(b"somebody's")
    store = LocalStore(tmp_path)
    assert store.get(PLACE) is None
    with pytest.raises(ArtifactError, match="unfinished"):
        store.put_once(PLACE, FILES)
    assert (tmp_path / PLACE / "table.parquet").read_bytes() == b"somebody's"


def test_a_collected_writer_does_not_publish_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    rename = Path.rename

    def collect_first(self: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "rename", rename)
        assert len(store.collect(0)) == 1
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", collect_first)
    with pytest.raises(ArtifactError, match="ENOENT"):
        store.put_once(PLACE, FILES)
    assert store.get(PLACE) is None
    assert store.put_once(PLACE, FILES) is True


def test_faults_of_the_file_system_show_no_path(tmp_path: Path) -> None:
    (tmp_path / "secret-name").write_bytes(b"a file, no folder")
    store = LocalStore(tmp_path / "secret-name")
    with pytest.raises(ArtifactError, match="ENOTDIR") as caught:
        store.put_once(PLACE, FILES)
    assert "secret-name" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("error", ["ESTALE", "EHOSTUNREACH", "ETIMEDOUT", "ECONNRESET"])
def test_faults_of_a_mounted_folder_are_of_the_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    def fail(*args: object) -> None:
        raise OSError(getattr(errno, error), "secret-name")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ConnectionError, match=error) as caught:
        LocalStore(tmp_path).put_once(PLACE, FILES)
    assert "secret-name" not in str(caught.value)


def test_open_store(tmp_path: Path) -> None:
    (tmp_path / THROWAWAY).touch()
    variable = {"STORE": f"file://{tmp_path}"}
    assert open_store(str(tmp_path)).throwaway is True
    assert open_store(f"file://{tmp_path}").throwaway is True
    assert open_store("env:STORE", variable).throwaway is True
    assert open_store(str(tmp_path / "other")).throwaway is False
    with pytest.raises(ConfigError, match="gopher"):
        open_store("gopher://user:password@host/x")


URLS = [
    "gopher://user:hunter2@host/x",
    "hunter2://x",
    "file://hunter2@host/x",
    "s3://key:hunter2@bucket/x",
    "s3://bucket/x?aws_secret_access_key=hunter2",
    "s3://bucket/x#hunter2",
    "s3://[hunter2/x",
    "s3://bucket/hunter2/../x",
    "s3://bucket:hunter2/x",
    "s3:///hunter2",
]


@pytest.mark.parametrize("bad", URLS)
def test_what_is_wrong_with_a_url_is_said_without_it(bad: str) -> None:
    for url, variables in ((bad, {}), ("env:STORE", {"STORE": bad})):
        with pytest.raises(ConfigError, match="store") as caught:
            open_store(url, variables)
        assert "hunter2" not in str(caught.value)


def test_a_variable_must_hold_a_url() -> None:
    for variables in ({}, {"STORE": ""}, {"STORE": "env:OTHER"}):
        with pytest.raises(ConfigError, match="STORE contains no URL"):
            open_store("env:STORE", variables)


def test_in_a_folder_of_several_users_all_may_add_and_each_removes_its_own(tmp_path: Path) -> None:
    for mode in (0o3770, 0o755):
        root = tmp_path / f"{mode:o}"
        root.mkdir()
        root.chmod(mode)
        umask = os.umask(0o027)
        try:
            LocalStore(root).put_once(PLACE, FILES)
        finally:
            os.umask(umask)
        place = root / PLACE
        above = {stat.S_IMODE(folder.stat().st_mode) for folder in place.parents[:3]}
        # Shared by set-group-ID and sticky bits; a folder without them is its owner's alone.
        assert above == {0o3770 if mode == 0o3770 else 0o750}
        assert not stat.S_IMODE(place.stat().st_mode) & 0o022
        assert {stat.S_IMODE(path.stat().st_mode) for path in place.iterdir()} == {0o644}


def test_links_in_a_shared_store_are_unlinked_and_never_followed(tmp_path: Path) -> None:
    """Anyone who may write into a shared folder may leave a link there."""
    store, outside = LocalStore(tmp_path / "store"), tmp_path / "outside"
    elsewhere = LocalStore(outside)
    for one in (store, elsewhere):
        one.put_once(PLACE, FILES)
    federation, run = PLACE.split("/")[:2]
    before = sorted(outside.rglob("*"))
    for name, target in (("a", outside), ("b", outside / "manifest.json"), ("c", tmp_path / "no")):
        (tmp_path / "store" / f".part-{name}").symlink_to(target)
    (tmp_path / "store" / ".part-real").mkdir()
    assert len(store.collect(0)) == 4 and store.garbage(0) == []
    # A linked run leaves by its name alone.
    other = "0" * 15 + "2"
    (tmp_path / "store" / federation / other).symlink_to(outside / federation / run)
    assert store.list(f"{federation}/{other}") == []
    assert store.remove_run(federation, other) == 0
    # A linked federation is no federation.
    (tmp_path / "store" / "linked").symlink_to(outside / federation)
    place = PLACE.replace(federation, "linked", 1)
    assert store.runs("linked") == store.list("linked") == []
    for act in (
        lambda: store.put_once(f"{place}x", FILES),
        lambda: store.remove_run("linked", other),
        lambda: store.get(place),
        lambda: store.list(f"linked/{run}"),
    ):
        with pytest.raises(ArtifactError, match="links are not followed"):
            act()
    assert sorted(outside.rglob("*")) == before
    assert store.list(federation) == [PLACE]


def test_a_bad_entry_does_not_stop_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    for name in "abc":
        (tmp_path / f".part-{name}").mkdir()
    rename = Path.rename

    def refused(path: Path, target: Path) -> Path:
        if path.name == ".part-a":
            raise PermissionError(13, "Permission denied")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises(ArtifactError, match="EACCES"):
        store.collect(0)
    assert store.garbage(0) == [".part-a"]

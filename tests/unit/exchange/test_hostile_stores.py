"""A store that somebody hostile writes to: every reader ends at once, in little memory."""

import json
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from opboost_ops.config.documents import read_json
from opboost_ops.errors import ArtifactError
from opboost_ops.exchange.acceptance import Acceptance
from opboost_ops.exchange.manifest import MANIFEST, SIGNATURE
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.store.folder import LocalStore
from tests.federation_simulator import LABEL, NAME, RUN, TODAY, Files, Simulation, resigned

TABLE = "entries.bin"
PLACE = f"{NAME}/{RUN}/ranks/b0"

Waiting = tuple[Acceptance, LocalStore, Path, Files, Simulation]


@pytest.fixture
def at_ranks(tmp_path: Path) -> Waiting:
    """The label holder as it waits for ranks, and the folder where they will lie."""
    run = Simulation(1, encrypted=False)
    run.until("ranks", "b0")
    files = run.seal("ranks", "b0")
    store = LocalStore(tmp_path)
    store.put_once(PLACE, files)
    return run.views[LABEL], store, tmp_path / PLACE, files, run


def sparse(path: Path, size: int = 40 << 30) -> None:
    path.unlink()
    with path.open("wb") as file:
        file.truncate(size)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def link(target: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.unlink()
        path.symlink_to(target)

    return make


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def socket(path: Path) -> None:
    import socket as sockets

    path.unlink()
    here = os.getcwd()
    os.chdir(path.parent)
    try:
        with sockets.socket(sockets.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


HOSTILE: dict[str, Callable[[Path], None]] = {
    "sparse": sparse,
    "pipe": pipe,
    "zeros": link("/dev/zero"),
    "random": link("/dev/urandom"),
    "elsewhere": link("/etc/passwd"),
    "itself": link("manifest.json"),
    "folder": folder,
    "socket": socket,
}


@pytest.mark.parametrize("name", [MANIFEST, SIGNATURE, TABLE])
@pytest.mark.parametrize("how", HOSTILE)
def test_no_file_of_an_artifact_stops_or_fills_its_reader(
    how: str, name: str, at_ranks: Waiting
) -> None:
    view, store, place, _, _ = at_ranks
    HOSTILE[how](place / name)
    begin, memory = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for admit in (view.admit("ranks", "b0"), None):
        with pytest.raises((Rejected, ArtifactError)) as caught:
            store.get(PLACE, admit)
        assert str(place) not in str(caught.value)
    assert time.monotonic() - begin < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 200 << 10
    with pytest.raises((Rejected, ArtifactError)):
        store.put_once(PLACE, at_ranks[3])


def test_a_thousand_files_or_a_linked_folder(at_ranks: Waiting, tmp_path: Path) -> None:
    view, store, place, _, _ = at_ranks
    for i in range(1000):
        (place / f"more{i}").write_bytes(b"x")
    with pytest.raises(Rejected, match="too many files"):
        store.get(PLACE, view.admit("ranks", "b0"))
    place.rename(tmp_path / "kept")
    place.symlink_to(tmp_path / "kept")
    assert store.get(PLACE, view.admit("ranks", "b0")) is None


def test_nothing_is_read_before_the_signature_is_verified(
    at_ranks: Waiting,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view, store, place, files, run = at_ranks
    opened: list[str] = []
    real = os.open

    def noting(path: object, *args: object, **kwargs: object) -> int:
        opened.append(str(path))
        return real(path, *args, **kwargs)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(os, "open", noting)
    assert store.get(PLACE, view.admit("ranks", "b0")) == files
    assert opened[1:] == [MANIFEST, SIGNATURE, "document.json", TABLE]
    opened.clear()
    forged = resigned(files, run.members["stranger"].signer, rows=8)
    for name, raw in forged.items():
        (place / name).write_bytes(raw)
    with pytest.raises(Rejected) as caught:
        store.get(PLACE, view.admit("ranks", "b0"))
    assert caught.value.reason == "bad_signature"
    assert TABLE not in opened


@pytest.mark.parametrize("change", [-1, 1, 1 << 20])
def test_a_file_has_its_listed_size_or_is_not_read(change: int, at_ranks: Waiting) -> None:
    view, store, place, files, _ = at_ranks
    with (place / TABLE).open("r+b") as file:
        file.truncate(len(files[TABLE]) + change)
    with pytest.raises(Rejected) as caught:
        store.get(PLACE, view.admit("ranks", "b0"))
    assert caught.value.reason == "bad_digest"


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        "[" * 70 + "]" * 70,
        '{"a": 1, "a": 2}',
        "[NaN]",
        "[-Infinity]",
        "[1e999]",
        "9" * 10_000,
        '"\ud800',
        "",
    ],
)
def test_json_goes_not_too_deep_and_says_nothing_twice(text: str) -> None:
    with pytest.raises((ValueError, RecursionError)):
        read_json(text.encode("utf-8", "surrogatepass"))


def test_json_as_deep_as_allowed_is_read() -> None:
    text = '{"a":' * 30 + "[" * 30 + "1.5" + "]" * 30 + "}" * 30
    assert read_json(text.encode()) == json.loads(text)


def test_an_honest_artifact_goes_through(
    at_ranks: Waiting,
) -> None:
    view, store, _, files, _ = at_ranks
    found = store.get(PLACE, view.admit("ranks", "b0"))
    assert found == files
    assert view.accept("ranks", "b0", found, TODAY).manifest.rows == 15

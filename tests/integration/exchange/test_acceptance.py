"""Artifacts on disk that somebody tampered with, met by the stages that read them."""

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from opboost_ops.errors import ContractError
from opboost_ops.exchange.acceptance import Reason, Rejected
from opboost_ops.exchange.encryption import Envelope
from opboost_ops.exchange.files import ENTRIES
from opboost_ops.exchange.manifest import MANIFEST, Kind, parse_manifest, receiver_of
from opboost_ops.exchange.sealed.sealing import ROW_TAG
from opboost_ops.exchange.signing import Signer
from tests.bad_input.faults import message_is_right
from tests.federation import FIRST_RUN, SECOND_RUN, Workspace
from tests.federation_simulator import resigned

LABEL, BANK, SHOP = "credit", "bank", "shop"
KINDS: tuple[Kind, ...] = (
    "plan", "psi_query", "psi_answer", "shares", "ranks", "split_request", "split_values",
)  # fmt: skip
ROWS_FILE = f"{ENTRIES}.enc"
Tamper = Callable[[Workspace], object]


def path(workspace: Workspace, kind: str, about: str = BANK) -> Path:
    return workspace.folder / "exchange" / "credit_scoring" / workspace.run / kind / about


def signer(workspace: Workspace, party: str) -> Signer:
    return Signer.from_file(workspace.folder / party / "keys" / "signing.key")


def rewrite(folder: Path, files: dict[str, bytes]) -> None:
    shutil.rmtree(folder)
    folder.mkdir()
    for name, raw in files.items():
        (folder / name).write_bytes(raw)


def restate(workspace: Workspace, kind: str, by: str = BANK, **changes: object) -> None:
    """Another manifest, really signed, in front of the same files."""
    folder = path(workspace, kind)
    files = {file.name: file.read_bytes() for file in folder.iterdir()}
    rewrite(folder, resigned(files, signer(workspace, by), **changes))


def swap(workspace: Workspace, kind: str, source: Path) -> None:
    folder = path(workspace, kind)
    shutil.rmtree(folder)
    shutil.copytree(source, folder)


@pytest.fixture(scope="module")
def released_once(trained_once: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A second run in which every feature holder has published. Tests copy it."""
    copy = trained_once.copy(tmp_path_factory.mktemp("released") / "federation", SECOND_RUN)
    with copy.known():
        copy.until("open_rows")
    return copy


@pytest.fixture
def released(
    released_once: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Workspace:
    return released_once.copy(tmp_path / "federation", SECOND_RUN, monkeypatch)


def refuses(workspace: Workspace, party: str, stage: str, reason: Reason, *words: str) -> Rejected:
    """The stage says why, publishes nothing, and remembers no more than before."""
    memory = workspace.home(party) / "acceptance.json"
    before = memory.read_bytes() if memory.exists() else None
    published = set(workspace.published())
    with pytest.raises(Rejected) as caught:
        workspace.step(party, stage)
    assert caught.value.reason == reason, str(caught.value)
    message_is_right(caught.value, "credit_scoring/", SECOND_RUN, *words)
    assert caught.value.remedy
    assert set(workspace.published()) == published
    assert (memory.read_bytes() if memory.exists() else None) == before
    assert not (workspace.home(party) / "alignment.json").exists()
    return caught.value


#: What `tests/adversary` does not deliver: it changes single messages of a run.
AT_ACCEPT: list[tuple[str, Reason, Tamper]] = [
    ("of the run before", "replayed",
     lambda w: swap(w, "ranks", path(w, "ranks").parents[2] / FIRST_RUN / "ranks" / BANK)),
    ("of another place", "out_of_order", lambda w: swap(w, "ranks", path(w, "shares"))),
    ("its query is not known", "out_of_order",
     lambda w: forget(w, LABEL, "psi_query/bank")),
    ("other plaintext than it says", "bad_digest", lambda w: lie(w, "ranks")),
]  # fmt: skip


def forge_rows(workspace: Workspace) -> None:
    """The bank's sealed rows under another nonce, really signed by it."""
    honest = workspace.artifact("ranks", BANK)
    width = honest.document["width"]
    entries = honest.entries(honest.manifest.rows + 1, ROW_TAG + width)
    document = {"nonce": "5" * 64, "width": width}
    workspace.forge("ranks", BANK, BANK, entries=entries, document=document)


def test_rows_under_another_nonce_than_they_name_do_not_open(released: Workspace) -> None:
    forge_rows(released)
    with pytest.raises(ContractError, match="keys or versions of the parties differ"):
        released.step(LABEL, "open_rows")
    assert not (released.home(LABEL) / "alignment.json").exists()


def lie(workspace: Workspace, kind: str) -> None:
    """Other rows, sealed to the right receiver, under the first ones' sha256."""
    restate(workspace, kind, software="0.4.1")
    folder = path(workspace, kind)
    digest = parse_manifest((folder / MANIFEST).read_bytes(), kind).digest
    public = str(workspace.declared.parties[LABEL].encryption_key)
    secret = workspace.site(BANK).read_secret()
    raw = Envelope(secret, public).encrypt(b"other rows", digest, ENTRIES)
    (folder / ROWS_FILE).write_bytes(raw)


def forget(workspace: Workspace, party: str, place: str) -> None:
    file = workspace.home(party) / "acceptance.json"
    memory = json.loads(file.read_bytes())
    del memory["accepted"][place]
    file.write_text(json.dumps(memory))


@pytest.mark.parametrize(
    ("reason", "tamper"), [pytest.param(r, t, id=f"{r}: {n}") for n, r, t in AT_ACCEPT]
)
def test_a_release_that_was_tampered_with(
    released: Workspace, reason: Reason, tamper: Tamper
) -> None:
    honest = released.files("exchange")
    memory = (released.home(LABEL) / "acceptance.json").read_bytes()
    tamper(released)
    refuses(released, LABEL, "open_rows", reason, BANK)
    # Undone, all is well: a refusal leaves nothing behind.
    (released.home(LABEL) / "acceptance.json").write_bytes(memory)
    for kind in ("psi_answer", "shares", "ranks"):
        start = f"credit_scoring/{SECOND_RUN}/{kind}/{BANK}/"
        rewrite(path(released, kind), {
            name.removeprefix(start): raw for name, raw in honest.items() if name.startswith(start)
        })  # fmt: skip
    assert released.step(LABEL, "open_rows")["train"] > 0


def test_a_second_plan(released: Workspace) -> None:
    folder = path(released, "plan", LABEL)
    files = {file.name: file.read_bytes() for file in folder.iterdir()}
    rewrite(folder, resigned(files, signer(released, LABEL), software="0.4.1"))
    for party, stage in ((BANK, "preprocess"), (LABEL, "open_rows")):
        with pytest.raises(Rejected, match="plan/credit") as caught:
            released.step(party, stage)
        assert caught.value.reason == "superseded"


def test_a_key_that_expires_today_is_still_good(workspace: Workspace) -> None:
    today = datetime.now(UTC).date()
    workspace.edit_yaml(
        "federation.yaml",
        lambda d: [p.update(signing_key_expires=today) for p in d["parties"].values()],
    )
    workspace.until("preprocess")
    assert workspace.declared.parties[BANK].signing_key_expires == today


def test_only_what_goes_to_a_party_with_a_key_is_encrypted(workspace: Workspace) -> None:
    workspace.plain()
    (workspace.folder / LABEL / "keys" / "encryption.key").unlink()
    workspace.all()
    for kind in KINDS:
        for about in (BANK, SHOP):
            folder = path(workspace, kind, LABEL if kind == "plan" else about)
            ends = {p.suffix for p in folder.iterdir() if not p.name.startswith("manifest")}
            plain = receiver_of(kind, about, LABEL) in (None, LABEL)
            assert (ends == {".enc"}) is not plain, f"{kind}/{about}"


def test_the_memory_tells_no_more_than_the_manifests(trained_once: Workspace) -> None:
    for party in (LABEL, BANK, SHOP):
        file = trained_once.home(party) / "acceptance.json"
        assert file.stat().st_mode & 0o077 == 0
        for place, entry in json.loads(file.read_bytes())["accepted"].items():
            raw = (path(trained_once, *place.split("/")) / MANIFEST).read_bytes()
            manifest = json.loads(raw)
            assert set(entry) == {"digest", "rows", "columns"}
            assert entry["rows"] == manifest["rows"]
            assert entry["columns"] == manifest["columns"]

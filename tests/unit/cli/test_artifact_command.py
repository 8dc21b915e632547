"""`opboost artifact`: every change to an artifact is found, and no value is printed."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from opboost_ops.exchange.signing import Signer
from tests.federation import FIRST_RUN, Workspace
from tests.unit.cli.conftest import Opboost

RANKS, PLAN = "ranks/bank", "plan/credit"


@pytest.fixture
def copied(trained_once: Workspace, tmp_path: Path) -> Callable[[str], Path]:
    """Copies of a run's artifacts: ranks are encrypted, and the plan is for all."""
    run = trained_once.folder / "exchange" / "credit_scoring" / FIRST_RUN

    def copy(place: str) -> Path:
        folder = tmp_path / place
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(run / place, folder)
        for path in folder.iterdir():
            path.chmod(0o600)
        return folder

    return copy


def ways(workspace: Workspace, place: str) -> list[tuple[str, str]]:
    """Both options by which an artifact is verified."""
    key = workspace.declared.parties[place.partition("/")[2]].signing_key
    return [("--key", key), ("--federation", str(workspace.file))]


@pytest.mark.parametrize("place", [RANKS, PLAN])
def test_a_right_one_is_right(
    trained_once: Workspace, opboost: Opboost, copied: Callable[[str], Path], place: str
) -> None:
    path = copied(place)
    assert json.loads(opboost("artifact", path).output) == json.loads(
        (path / "manifest.json").read_text()
    )
    for how in ways(trained_once, place):
        output = opboost("artifact", path, *how).output
        assert f"credit_scoring/{FIRST_RUN}/{place}, signed by {path.name}" in output
        assert ("only the receiver" in output) is (place == RANKS)


def flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


def reformat(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()), indent=1))


def claim_more(path: Path) -> None:
    path.write_text(path.read_text().replace('"rows":', '"rows":1', 1))


def content(folder: Path) -> Path:
    """A file that the manifest lists."""
    return min(path for path in folder.iterdir() if not path.name.startswith("manifest"))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize(
    ("place", "act", "problem"),
    [
        (RANKS, lambda p: reformat(p / "manifest.json"), "not in canonical form"),
        (RANKS, lambda p: claim_more(p / "manifest.json"), "signature is not by"),
        (RANKS, lambda p: (p / "manifest.json").write_text("{"), "manifest is damaged"),
        (RANKS, lambda p: (p / "manifest.json").unlink(), "no manifest.json"),
        (RANKS, lambda p: flip(p / "manifest.sig"), "signature is not by"),
        (RANKS, lambda p: (p / "manifest.sig").unlink(), "manifest.sig is missing"),
        (RANKS, lambda p: (p / "notes.txt").write_text("x"), "not those it lists"),
        (RANKS, lambda p: content(p).unlink(), "not those it lists"),
        (RANKS, lambda p: cut(content(p)), "right size"),
        (PLAN, lambda p: flip(content(p)), "was changed"),
    ],
)
def test_every_change_is_found(
    trained_once: Workspace,
    opboost: Opboost,
    copied: Callable[[str], Path],
    place: str,
    act: Callable[[Path], object],
    problem: str,
) -> None:
    path = copied(place)
    act(path)
    for how in ways(trained_once, place):
        done = opboost("artifact", path, *how)
        assert problem in done.error
        assert done.out == ""


def test_the_federation_says_who_may(workspace: Workspace, opboost: Opboost) -> None:
    workspace.run = FIRST_RUN
    path = workspace.folder / "exchange" / "credit_scoring" / FIRST_RUN / RANKS
    workspace.forge("ranks", "bank", "shop")
    verify = ("artifact", path, "--federation", workspace.file)
    assert "shop may not publish this ranks" in opboost(*verify).error
    workspace.forge("ranks", "bank", "bank")
    assert "signed by bank" in opboost(*verify).output
    workspace.edit_yaml("federation.yaml", lambda data: data.update(name="other"))
    assert "another federation" in opboost(*verify).error


def test_what_names_no_key_or_no_artifact_is_one_error(
    trained_once: Workspace, tmp_path: Path, opboost: Opboost, copied: Callable[[str], Path]
) -> None:
    path, both = copied(RANKS), ways(trained_once, RANKS)
    error = opboost("artifact", path, *both[0], *both[1]).error
    assert "either --key or --federation" in error
    assert "not a public key" in opboost("artifact", path, "--key", "bank").error
    (tmp_path / "empty").mkdir()
    assert "no manifest.json" in opboost("artifact", tmp_path / "empty").error
    assert "cannot be read" in opboost("artifact", tmp_path / "none", *both[0]).error


def test_names_inside_never_lead_elsewhere(
    trained_once: Workspace, opboost: Opboost, copied: Callable[[str], Path]
) -> None:
    """A signed manifest may name any file: only what lies in the folder is ever read."""
    path = copied(PLAN)
    manifest = json.loads((path / "manifest.json").read_text())
    (digest, *_) = manifest["files"].values()
    manifest["files"] = {"../../../../../bank.key\x1b[2J": digest}
    raw = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
    key = trained_once.folder / "credit" / "keys" / "signing.key"
    (path / "manifest.json").write_bytes(raw)
    (path / "manifest.sig").write_bytes(Signer.from_file(key).sign(raw))
    assert "\x1b" not in opboost("artifact", path).output
    for how in ways(trained_once, PLAN):
        assert "not those it lists" in opboost("artifact", path, *how).error

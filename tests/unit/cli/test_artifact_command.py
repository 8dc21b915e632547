"""`opboost artifact`: every change to an artifact is found, and no value is printed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from opboost_ops.exchange.artifact import Draft
from opboost_ops.exchange.encryption import Envelope, new_encryption_key
from opboost_ops.exchange.points import Layout
from opboost_ops.exchange.signing import Signer, new_signing_key
from opboost_ops.exchange.store import LocalStore
from opboost_ops.privacy.loss import LossCurve
from tests.unit.cli.conftest import Opboost

RUN = "0" * 15 + "1"
PLACE = f"toy/{RUN}/ranks/bank"
CANARY = "31337"
LOSSES = {
    "income": LossCurve(mechanism="Global-map", epsilon=0.5, loss=(0.25, 1.75), certificate=True),
    "flag": LossCurve(mechanism="bit", epsilon=0.5, loss=("inf",), certificate=False),
}
RECEIVER = new_encryption_key(b"r" * 32)[1]


class Toy:
    """A bank that sends ranks to a shop."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.keys = {}
        for party in ("bank", "shop"):
            private, self.keys[party] = new_signing_key(party.ljust(32, "-").encode())
            (folder / f"{party}.key").write_text(private)
            (folder / f"{party}.key").chmod(0o600)

    def publish(self, encrypted: bool, signer: str = "bank", **changes: Any) -> Path:
        entries = np.frombuffer(2 * CANARY.encode(), np.uint8).reshape(2, len(CANARY))
        draft = {"about": "bank", "columns": tuple(LOSSES), "answers": "b" * 64, **changes}
        draft = {"document": Layout(b"n" * 32, len(CANARY)).document(), **draft}
        party = draft.pop("party", signer)
        experiment = draft.pop("experiment", False)
        draft = {"kind": "ranks", "rows": 2, "entries": entries, "losses": LOSSES, **draft}
        _, files = Draft(discloses="", **draft).seal(
            Signer.from_file(self.folder / f"{signer}.key"),
            "toy",
            RUN,
            party,
            experiment,
            Envelope(b"s" * 32, RECEIVER) if encrypted else None,
        )
        LocalStore(self.folder / "store").put_once(PLACE, files)
        return self.folder / "store" / PLACE

    def federation(self, encrypted: bool, name: str = "toy") -> Path:
        feature = {
            "bounds": [0, 1],
            "mechanism": {"name": "global_map", "epsilon": 0.5},
        }
        uuids = (f"00000000-0000-4000-8000-00000000000{i}" for i in range(9))
        shop = {
            "role": "label_holder",
            "signing_key": self.keys["shop"],
            "label": {"column": "y", "task": "binary"},
        }
        if encrypted:
            shop["encryption_key"] = RECEIVER
        bank = {
            "role": "feature_holder",
            "signing_key": self.keys["bank"],
            "features": {name: {"uuid": next(uuids), **feature} for name in LOSSES},
        }
        data = {
            "version": 1,
            "name": name,
            "id": {"column": "id", "type": "string"},
            "domain": {"lower": 0, "upper": 9},
            "parties": {"shop": shop, "bank": bank},
        }
        path = self.folder / "federation.yaml"
        path.write_text(yaml.safe_dump(data))
        return path


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    return Toy(tmp_path)


@pytest.mark.parametrize("encrypted", [True, False])
def test_what_it_states_is_the_manifest(toy: Toy, opboost: Opboost, encrypted: bool) -> None:
    path = toy.publish(encrypted)
    output = opboost("artifact", path).output
    assert json.loads(output) == json.loads((path / "manifest.json").read_text())
    assert CANARY not in output


@pytest.mark.parametrize("encrypted", [True, False])
def test_a_right_one_is_right(toy: Toy, opboost: Opboost, encrypted: bool) -> None:
    path = toy.publish(encrypted)
    for how in (("--key", toy.keys["bank"]), ("--federation", toy.federation(encrypted))):
        output = opboost("artifact", path, *how).output
        assert f"{PLACE}, signed by bank" in output
        assert ("only the receiver" in output) is encrypted
        assert CANARY not in output


def flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


def reformat(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()), indent=1))


def claim_more(path: Path) -> None:
    path.write_text(path.read_text().replace('"rows":2', '"rows":3'))


CHANGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "reformatted": (lambda p: reformat(p / "manifest.json"), "not in canonical form"),
    "claim": (lambda p: claim_more(p / "manifest.json"), "signature is not by"),
    "damaged": (lambda p: (p / "manifest.json").write_text("{"), "manifest is damaged"),
    "no-manifest": (lambda p: (p / "manifest.json").unlink(), "no manifest.json"),
    "signature": (lambda p: flip(p / "manifest.sig"), "signature is not by"),
    "no-signature": (lambda p: (p / "manifest.sig").unlink(), "manifest.sig is missing"),
    "extra": (lambda p: (p / "notes.txt").write_text("x"), "not those it lists"),
}


@pytest.mark.parametrize("encrypted", [True, False])
def test_every_change_is_found(tmp_path: Path, opboost: Opboost, encrypted: bool) -> None:
    for name, (act, problem) in CHANGES.items():
        (tmp_path / name).mkdir()
        toy = Toy(tmp_path / name)
        path = toy.publish(encrypted)
        act(path)
        for how in (("--key", toy.keys["bank"]), ("--federation", toy.federation(encrypted))):
            done = opboost("artifact", path, *how)
            assert problem in done.error, name
            assert done.out == ""


def test_changed_files_are_found(toy: Toy, opboost: Opboost) -> None:
    path = toy.publish(False)
    key = ("--key", toy.keys["bank"])
    flip(path / "entries.bin")
    assert "entries.bin was changed" in opboost("artifact", path, *key).error
    (path / "entries.bin").unlink()
    assert "not those it lists" in opboost("artifact", path, *key).error


def test_cut_encrypted_files_are_found(toy: Toy, opboost: Opboost) -> None:
    path = toy.publish(True)
    key, file = ("--key", toy.keys["bank"]), path / "entries.bin.enc"
    file.write_bytes(file.read_bytes()[:-1])
    assert "right size" in opboost("artifact", path, *key).error
    file.rename(path / "entries.bin")
    assert "not those it lists" in opboost("artifact", path, *key).error


def test_the_federation_says_who_may(tmp_path: Path, opboost: Opboost) -> None:
    for at, (changes, problem) in enumerate(
        (
            ({"signer": "shop"}, "shop may not publish this ranks"),
            ({"party": "stranger"}, "knows no such party"),
            ({"about": "stranger"}, "knows no such party"),
        )
    ):
        (tmp_path / str(at)).mkdir()
        toy = Toy(tmp_path / str(at))
        path = toy.publish(True, **changes)
        assert problem in opboost("artifact", path, "--federation", toy.federation(True)).error


def test_another_federation_or_receiver_is_found(toy: Toy, opboost: Opboost) -> None:
    path = toy.publish(True)
    verify = ("artifact", path, "--federation")
    assert "another federation" in opboost(*verify, toy.federation(True, name="other")).error
    assert "declared key of its receiver" in opboost(*verify, toy.federation(False)).error


def test_the_key_must_be_named_once_and_be_one(toy: Toy, opboost: Opboost) -> None:
    path = toy.publish(True)
    both = ("--key", toy.keys["bank"], "--federation", toy.federation(True))
    assert "either --key or --federation" in opboost("artifact", path, *both).error
    assert "not a public key" in opboost("artifact", path, "--key", "bank").error


def test_no_artifact_is_one_error(tmp_path: Path, opboost: Opboost) -> None:
    for key in ((), ("--key", "A" * 43 + "=")):
        assert "no manifest.json" in opboost("artifact", tmp_path, *key).error
        assert "cannot be read" in opboost("artifact", tmp_path / "none", *key).error


def test_names_inside_never_lead_elsewhere(toy: Toy, opboost: Opboost) -> None:
    """A signed manifest may name any file: only what lies in the folder is ever read."""
    path = toy.publish(False)
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["files"] = {"../../../../../bank.key\x1b[2J": manifest["files"]["entries.bin"]}
    raw = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
    (path / "manifest.json").write_bytes(raw)
    (path / "manifest.sig").write_bytes(Signer.from_file(toy.folder / "bank.key").sign(raw))
    output = opboost("artifact", path).output
    assert "\x1b" not in output
    done = opboost("artifact", path, "--key", toy.keys["bank"])
    assert "not those it lists" in done.error

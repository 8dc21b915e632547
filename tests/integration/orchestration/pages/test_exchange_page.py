"""The exchange's page says what was sent, received and changed on its way."""

import json
import sqlite3
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from opboost_ops.exchange.signing import Signer
from opboost_ops.learning.registry.card_words import alignment_words
from tests.federation import FIRST_RUN, Workspace
from tests.integration.orchestration.pages.conftest import Reader
from tests.integration.orchestration.pages.reading import plain, rows


def test_the_exchange_is_what_was_sent(reader: Reader, untouched: Workspace) -> None:
    found = rows(reader, f"exchange?run={FIRST_RUN}", "bank.artifacts")
    kinds = [line["what"] for line in found]
    assert kinds == [
        "plan",
        "blinded IDs",
        "answer to blinded IDs",
        "shares",
        "ranks",
        "split request",
        "split values",
    ]
    assert all(line["verified now"].startswith("signature") for line in found)
    assert all(line["in the log"] == "same digest" for line in found[1:])
    ranks = next(line for line in found if line["what"] == "ranks")
    manifest = untouched.folder / "exchange" / "credit_scoring" / FIRST_RUN / "ranks" / "bank"
    assert int(ranks["size"]) == sum(path.stat().st_size for path in manifest.iterdir())
    assert int(ranks["rows"]) == json.loads((manifest / "manifest.json").read_text())["rows"]
    assert (ranks["from"], ranks["to"], ranks["encrypted"]) == ("bank", "credit", "yes")
    text = plain(reader.page("exchange?party=bank"))
    assert (
        f"To find common people: {alignment_words(untouched.declared, 'each feature holder')}"
        in text
    )
    assert "unbroken" in text
    assert "Runs 1 Sent" in text, "the agreement is no run"


def test_the_keys_are_those_that_were_agreed_to_with_their_dates(
    reader: Reader, shown: Workspace
) -> None:
    last = date.today() + timedelta(days=3)

    def change(data: Any) -> None:
        data["parties"]["bank"].update(signing_key_expires=last)

    shown.edit_yaml("federation.yaml", change)
    found = rows(reader, "exchange", "credit.keys")
    keys = {(line["party"], line["for"]): line for line in found}
    assert len(keys) == 2 * len(shown.declared.parties)
    bank = keys["bank", "signing"]
    assert (bank["until"], bank["state"]) == (str(last), "expires soon")
    assert bank["key"] == shown.declared.parties["bank"].signing_key
    assert keys["shop", "signing"]["state"] == "good"
    # A feature holder deals with those that its policy pins.
    assert {line["party"] for line in rows(reader, "exchange", "shop.keys")} == {"credit", "shop"}


def test_what_was_changed_on_its_way_is_said(reader: Reader, shown: Workspace) -> None:
    shown.run = FIRST_RUN
    shown.forge("ranks", "bank", "shop")
    store = shown.folder / "exchange" / "credit_scoring" / FIRST_RUN
    sealed = next((store / "shares" / "bank").glob("entries.bin*"))
    sealed.write_bytes(sealed.read_bytes() + b"x")
    found = {
        line["what"]: line
        for line in rows(reader, f"exchange?run={FIRST_RUN}", "credit.artifacts")
        if "bank" in (line["from"], line["to"])
    }
    assert "shop may not publish this ranks" in found["ranks"]["verified now"]
    assert found["ranks"]["in the log"] == "another digest"
    assert "does not have the right size" in found["shares"]["verified now"]
    assert found["answer to blinded IDs"]["verified now"].startswith("signature")


def content(folder: Path) -> Path:
    """A file that the manifest lists."""
    return min(path for path in folder.iterdir() if not path.name.startswith("manifest"))


def flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


def reformat(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()), indent=1))


def claim_more(path: Path) -> None:
    path.write_text(path.read_text().replace('"rows":', '"rows":1', 1))


TAMPERS: list[tuple[str, Callable[[Path], object]]] = [
    ("ranks/bank", lambda folder: reformat(folder / "manifest.json")),
    ("ranks/bank", lambda folder: claim_more(folder / "manifest.json")),
    ("ranks/bank", lambda folder: (folder / "manifest.json").write_text("{")),
    ("ranks/bank", lambda folder: flip(folder / "manifest.sig")),
    ("ranks/bank", lambda folder: (folder / "manifest.sig").unlink()),
    ("ranks/bank", lambda folder: content(folder).unlink()),
    ("plan/credit", lambda folder: flip(content(folder))),
]


def test_every_change_of_an_artifact_is_found(reader: Reader, shown: Workspace) -> None:
    store = shown.folder / "exchange" / "credit_scoring" / FIRST_RUN
    for place, tamper in TAMPERS:
        kind, _, party = place.partition("/")
        before = {path: path.read_bytes() for path in (store / place).iterdir()}
        for path in before:
            path.chmod(0o600)
        tamper(store / place)
        found = rows(reader, f"exchange?run={FIRST_RUN}", f"{party}.artifacts")
        verdicts = [line["verified now"] for line in found if line["what"] == kind]
        assert verdicts and not any(verdict.startswith("signature") for verdict in verdicts)
        for path, raw in before.items():
            path.write_bytes(raw)


def test_names_in_a_manifest_lead_nowhere_else(reader: Reader, shown: Workspace) -> None:
    """A signed manifest may name any file: only what lies in the folder is ever read."""
    folder = shown.folder / "exchange" / "credit_scoring" / FIRST_RUN / "plan" / "credit"
    manifest = json.loads((folder / "manifest.json").read_text())
    (digest, *_) = manifest["files"].values()
    manifest["files"] = {"../../../../../bank.key": digest}
    raw = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
    for path in folder.iterdir():
        path.chmod(0o600)
    (folder / "manifest.json").write_bytes(raw)
    key = shown.folder / "credit" / "keys" / "signing.key"
    (folder / "manifest.sig").write_bytes(Signer.from_file(key).sign(raw))
    plan, *_ = rows(reader, f"exchange?run={FIRST_RUN}", "credit.artifacts")
    assert not plan["verified now"].startswith("signature")


def test_a_broken_chain_is_said(reader: Reader, shown: Workspace) -> None:
    database = sqlite3.connect(shown.folder / "bank" / "ledger.sqlite")
    with database:
        database.execute("update audit set entry = replace(entry, 'sent', 'answered')")
    text = plain(reader.page("exchange?party=bank"))
    assert "The audit log is broken at entry" in text
    assert "unbroken" not in text

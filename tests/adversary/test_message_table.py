"""The reference says of every field of every message how it is verified."""

import dataclasses
import json
import re
from collections import defaultdict
from pathlib import Path
from typing import get_args

import pytest

from opboost_ops.exchange import artifact
from opboost_ops.exchange.contents import Layout
from opboost_ops.exchange.files import ENTRIES, is_part
from opboost_ops.exchange.manifest import (
    MANIFEST,
    ROUND_KINDS,
    SIGNATURE,
    File,
    Kind,
    Manifest,
    sender_of,
)
from opboost_ops.exchange.plan import Plan
from opboost_ops.privacy.ledger.checkpoints import Checkpoint
from tests.adversary.hostile_values import DOCUMENTS, LAYOUTS, LISTS, MANIFESTS, ROUND_DOCUMENTS
from tests.adversary.rounds import banks_of, session
from tests.federation import Workspace
from tests.horizontal import RUN

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "messages.md"
HEADING = "# Every message and its fields"


def table() -> dict[str, set[str]]:
    """Fields by message, as the document has them; each with how it is verified."""
    text = DOCUMENT.read_text(encoding="utf-8").split(HEADING)[1].split("\n## ")[0]
    found: dict[str, set[str]] = defaultdict(set)
    for line in text.splitlines():
        if not line.startswith("| `"):
            continue
        message, field, verified = (cell.strip() for cell in line.strip("|").split("|"))
        assert verified, line
        assert not verified.startswith("nothing") or len(verified) > len("nothing: "), line
        for name in re.findall(r"`([a-z_]+)`", message):
            found[name] |= set(re.findall(r"`([a-z_0-9]+)`", field)) or {field}
    return found


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        ("manifest", set(Manifest.model_fields)),
        ("file", set(File.model_fields)),
        ("checkpoint", set(Checkpoint.model_fields)),
        ("plan", {field.name for field in dataclasses.fields(Plan)}),
        ("layout", {field.name for field in dataclasses.fields(Layout)}),
    ],
)
def test_every_field_of_a_schema_is_in_the_table(message: str, fields: set[str]) -> None:
    assert table()[message] == fields


def test_every_kind_of_message_is_in_the_table() -> None:
    assert set(get_args(Kind)) <= set(table())


def test_what_a_real_run_sends_has_no_other_fields(trained_once: Workspace) -> None:
    told, sent = table(), set()
    for place in trained_once.published():
        kind, about = place.split("/")[:2]
        assert sender_of(kind, about, trained_once.declared.label_holder)  # type: ignore[arg-type]
        found = trained_once.artifact(kind, about)  # type: ignore[arg-type]
        files = set(found.files) - {MANIFEST, SIGNATURE}
        fields = set(found.document) if artifact.DOCUMENT in files else set()
        known = told[kind] | (told["layout"] if "nonce" in fields else set())
        # What is no document is a list of points or of sealed entries.
        lists = {name for name in files if name == ENTRIES or is_part(name)}
        assert files - lists <= {artifact.DOCUMENT}, place
        assert fields <= known, place
        assert not lists or known & {"points", "entries"}, place
        sent |= {(kind, bool(lists), bool(fields))}
    assert ("psi_answer", True, False) in sent, "lists alone were read"
    assert {("ranks", True, True), ("split_request", False, True)} <= sent


def test_what_a_session_of_horizontal_learning_sends_has_no_other_fields(tmp_path: Path) -> None:
    told, sent, banks = table(), set(), banks_of(tmp_path)
    session(banks, timeout=20)
    for place in banks.store.list(f"banks/{RUN}"):
        kind = place.split("/")[2]
        content = set(banks.store.get(place) or ()) - {MANIFEST, SIGNATURE}
        sent.add(kind)
        if kind == "masked":
            assert content == {"vector.bin.enc"}
            continue
        assert content == {artifact.DOCUMENT}
        assert set(json.loads(banks.store.get(place)[artifact.DOCUMENT])) <= told[kind]  # type: ignore[index]
    assert sent == set(ROUND_KINDS)


def test_every_field_of_the_table_has_hostile_values() -> None:
    told = table()
    assert told.pop("manifest") == set(MANIFESTS)
    assert told.pop("layout") == set(LAYOUTS)
    # Both are inside the manifest's `files`, `head` and `seen`.
    assert told.pop("file") == {"sha256", "size"} and told.pop("checkpoint")
    documents = {**DOCUMENTS, **ROUND_DOCUMENTS}
    assert set(told) == set(documents) | set(LISTS)
    for kind in documents:
        assert told[kind] == set(documents[kind]), kind

"""The threat model says of every field of every message who chooses and who verifies it."""

import dataclasses
import re
from collections import defaultdict
from pathlib import Path
from typing import get_args

import pytest

from opboost_ops.exchange.manifest import File, Kind, Manifest, sender_of
from opboost_ops.exchange.plan import Plan
from opboost_ops.exchange.points import Layout
from opboost_ops.privacy.checkpoints import Checkpoint
from tests.federation import Workspace

DOCUMENT = Path(__file__).parents[2] / "docs" / "threat-model.md"
HEADING = "## Every message and its fields"


def table() -> dict[str, set[str]]:
    """Fields by message, as the document has them; each with who chooses and who verifies."""
    text = DOCUMENT.read_text(encoding="utf-8").split(HEADING)[1].split("\n## ")[0]
    found: dict[str, set[str]] = defaultdict(set)
    for line in text.splitlines():
        if not line.startswith("| `"):
            continue
        message, field, chosen, verified = (cell.strip() for cell in line.strip("|").split("|"))
        assert chosen and verified, line
        assert not verified.startswith("nobody") or len(verified) > len("nobody: "), line
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
    told = table()
    for place in trained_once.published():
        kind, about = place.split("/")[:2]
        assert sender_of(kind, about, trained_once.declared.label_holder)  # type: ignore[arg-type]
        document = trained_once.artifact(kind, about).document  # type: ignore[arg-type]
        known = told[kind] | (told["layout"] if "nonce" in (document or {}) else set())
        assert set(document or {}) <= known, place

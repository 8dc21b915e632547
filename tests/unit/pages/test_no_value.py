"""No value of a table and no ID is on any page or in any download, at whatever party."""

import html
import re
from pathlib import Path

import pytest
from fastapi import FastAPI

from tests.federation import FIRST_RUN, Workspace
from tests.leakage.canaries import NAME, Canaries, plant
from tests.unit.pages.conftest import Reader


@pytest.fixture(scope="module")
def canaries(tmp_path_factory: pytest.TempPathFactory) -> Canaries:
    planted = plant(tmp_path_factory.mktemp("canaries") / "parties")
    workspace = Workspace(planted.root)
    with workspace.known():
        workspace.all()
    return planted


def test_nothing_of_a_table_is_shown(
    canaries: Canaries,
    application: FastAPI,
    token: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in Workspace(canaries.root).environment().items():
        monkeypatch.setenv(name, value)
    reader = Reader(application, cookies={"_token": token})
    pages = (
        "ledger",
        "models",
        "exchange",
        "quality",
        "statement",
        "statement",
        "status",
        "status.json",
    )
    begin = {*pages, f"run?id={FIRST_RUN}"}
    waiting, seen = sorted(begin), set(begin)
    while waiting:
        path = waiting.pop()
        reply = reader.get(f"/opboost/{path}")
        assert reply.status_code == 200, path
        # The model is the label holder's own: its thresholds on own columns are own values.
        if "model.txt" in path:
            continue
        for whose, marks in {**canaries.own, "everybody": canaries.shared}.items():
            found = [text for text in marks.texts if text in reply.content]
            assert not found, f"{path}: {whose}"
        for link in re.findall(r'(?:href|src)="/opboost/([^"#]+)"', reply.text):
            link = html.unescape(link)
            if link not in seen:
                seen.add(link)
                waiting.append(link)
    for expected in (f"models/bureau/{NAME}/", f"quality/shop/{NAME}/", "csv=bank.lines"):
        assert any(expected in path for path in seen)

"""No value of a table and no ID is on any page or in any download, at whatever party."""

from pathlib import Path

import pytest
from fastapi import FastAPI

from tests.federation import FIRST_RUN, Workspace
from tests.integration.orchestration.pages.conftest import Reader
from tests.integration.orchestration.pages.reading import crawl
from tests.leakage.canaries import NAME, Canaries, plant


@pytest.fixture(scope="module")
def canaries(tmp_path_factory: pytest.TempPathFactory) -> Canaries:
    planted = plant(tmp_path_factory.mktemp("canaries") / "parties")
    workspace = Workspace(planted.root)
    with workspace.known():
        workspace.all()
    return planted


@pytest.mark.slow
def test_nothing_of_a_table_is_shown(
    canaries: Canaries,
    application: FastAPI,
    token: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Workspace(canaries.root).known_to(monkeypatch)
    reader = Reader(application, cookies={"_token": token})
    pages = (
        "ledger",
        "models",
        "exchange",
        "quality",
        "ledger?since=2026-01-01",
        "status",
        "status.json",
    )
    seen = []
    for path, reply in crawl(reader, (*pages, f"run?id={FIRST_RUN}")):
        assert reply.status_code == 200, path
        seen.append(path)
        # The model is the label holder's own: its thresholds on own columns are own values.
        if "model.txt" in path:
            continue
        for whose, marks in {**canaries.own, "everybody": canaries.shared}.items():
            found = [text for text in marks.texts if text in reply.content]
            assert not found, f"{path}: {whose}"
    for expected in (f"models/bureau/{NAME}/", f"quality/shop/{NAME}/", "csv=bank.lines"):
        assert any(expected in path for path in seen)

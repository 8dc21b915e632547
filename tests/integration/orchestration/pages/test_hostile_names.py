"""Names, categories and reasons that somebody else writes stay text on every page."""

import html
import re
from typing import Any

import pytest
from fastapi import FastAPI

from opboost_ops.extras.datasets.tables import Dataset
from tests.commands import printed
from tests.federation import FIRST_RUN, Workspace, small_credit
from tests.integration.orchestration.pages.conftest import Reader
from tests.integration.orchestration.pages.reading import crawl

#: A feature's name has no blank, no quote and no slash.
FEATURE, CATEGORY = "<script>alert(1)", "<img src=x onerror=alert(1)>"
REASON = "<script>alert(2)</script>"
#: Where each would begin to be more than text.
LIVE = re.compile(r"<(script>alert|img src=x)", re.IGNORECASE)


def hostile() -> Dataset:
    """The credit federation, one of whose feature holders declares what it likes."""
    dataset = small_credit(rows=200)
    tables, features = dict(dataset.tables), {p: dict(f) for p, f in dataset.features.items()}
    new = dict(dataset.new_rows)
    spec: dict[str, Any] = {**features["shop"].pop("payment")}
    spec["categories"] = [CATEGORY if c == "card" else c for c in spec["categories"]]
    features["shop"]["payment"] = spec
    features["shop"][FEATURE] = features["shop"].pop("late_payments")
    for of in (tables, new):
        table = of["shop"].rename({"late_payments": FEATURE})
        of["shop"] = table.with_columns(table["payment"].replace("card", CATEGORY))
    return Dataset(**{**vars(dataset), "tables": tables, "features": features, "new_rows": new})


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    workspace = Workspace.write(tmp_path_factory.mktemp("hostile") / "federation", hostile())
    with workspace.known():
        workspace.all()
        printed("stop", workspace.folder / "shop", "credit_scoring", "--because", REASON)
    return workspace


@pytest.mark.slow
def test_what_others_write_is_text_on_every_page(
    written: Workspace, application: FastAPI, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written.known_to(monkeypatch)
    reader = Reader(application, cookies={"_token": token})
    begin = {"ledger", "models", "exchange", "quality", "ledger?since=2026-01-01", "status", "keys",
             f"run?id={FIRST_RUN}"}  # fmt: skip
    seen, shown = [], set()
    for path, reply in crawl(reader, begin):
        seen.append(path)
        kind = reply.headers.get("content-type", "")
        if "html" in kind or "svg" in kind:
            assert not LIVE.search(reply.text), path
            text = html.unescape(reply.text)
            shown |= {word for word in (FEATURE, CATEGORY, REASON) if word in text}
    assert len(seen) > 20 and shown >= {FEATURE, REASON}


def test_reports_at_home_are_as_harmless(written: Workspace) -> None:
    reports = list(written.folder.rglob("*.html"))
    assert any(FEATURE in html.unescape(path.read_text(encoding="utf-8")) for path in reports)
    assert not [path for path in reports if LIVE.search(path.read_text(encoding="utf-8"))]

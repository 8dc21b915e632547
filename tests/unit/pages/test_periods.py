"""The ledger's forecast of days, and its statement of a period."""

import csv
import io
import re
from datetime import UTC, datetime
from html import unescape
from pathlib import Path

import pytest

from opboost_ops.config.loading import load_site, site_of
from opboost_ops.errors import BudgetError
from opboost_ops.exchange.party_state import open_state
from opboost_ops.privacy.accountant import accounts, total
from opboost_ops.run.inbox import Run, note_refused
from tests.federation import SECOND_RUN, Workspace
from tests.party_state import state_of
from tests.unit.pages.conftest import Reader
from tests.unit.pages.long_history import lengthen
from tests.unit.pages.reading import plain
from tests.unit.pages.test_ledger_page import allow_income, income

DAYS = "since=2026-01-08&until=2026-01-12"


def test_the_ledger_says_by_which_day_a_budget_ends(
    trained_once: Workspace, tmp_path: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run a night until 2026-01-10, and room for four more: the fourth night after that."""
    copy = trained_once.copy(tmp_path / "federation", SECOND_RUN)
    lengthen(copy, 5)
    copy.known_to(monkeypatch)
    one = float(income(reader)["loss(R-L)"]) / 5
    fits = "more runs on changed data within budget_whole of income"
    for values, left, told in (
        (9.5, "4", f"4 {fits}, at the pace so far 4 nights, until about 2026-01-14"),
        (5.5, "0", f"0 {fits}; then releases are refused"),
        (10.5, "unlimited", "within all budgets; after 5 more runs on changed data"),
    ):
        allow_income(copy, budget_whole=values * one)
        text = plain(reader.page("ledger?party=bank"))
        assert f"Retrainings left {left} {told}" in text
        assert ("about 20" in text) == ("about" in told)
    # Of a single night there is no pace.
    alone = trained_once.copy(tmp_path / "alone", SECOND_RUN, monkeypatch)
    allow_income(alone, budget_whole=3.5 * one)
    text = plain(reader.page("ledger?party=bank"))
    assert f"Retrainings left 2 2 {fits}; then" in text
    assert "at the pace so far" not in text


def charged(folder: Path, first: str, last: str) -> float:
    """loss(R - L) of the lines whose day is among some, by the ledger itself."""
    with open_state(load_site(folder / "site.yaml")) as state:
        lines = [r for at, r in state.ledger.dated() if first <= at[:10] <= last]
    return float(total(account.whole for account in accounts(lines).values()))


def test_a_statement_is_of_its_period_alone(reader: Reader, nights: Workspace) -> None:
    reply = reader.get(f"/opboost/ledger?party=bank&{DAYS}&csv=bank.statement")
    lines = list(csv.reader(io.StringIO(reply.text)))
    preamble = {line[0]: line[1] for line in lines[:6]}
    with state_of(nights, "bank") as state:
        entries, head = state.audit.verify()
    assert preamble["audit log, head"] == head
    assert preamble["audit log, entries"] == str(entries)
    assert (preamble["first day (UTC)"], preamble["party"]) == ("2026-01-08", "bank")
    assert preamble["audit log, verified (UTC)"] <= datetime.now(UTC).isoformat(sep=" ")
    heads, *found = lines[6:]
    inside = [float(line[heads.index("loss(R-L) in the period")]) for line in found]
    bank = nights.folder / "bank"
    assert sum(inside) == pytest.approx(charged(bank, "2026-01-08", "2026-01-12"))
    at_end = [float(line[heads.index("loss(R-L) at its end")]) for line in found]
    assert sum(at_end) == pytest.approx(charged(bank, "2026-01-01", "2026-01-12"))
    assert {line[heads.index("draws in the period")] for line in found} == {"5"}
    text = plain(reader.page(f"ledger?party=bank&{DAYS}"))
    assert "2026-01-08 to 2026-01-12" in text
    assert head in text
    nothing = plain(reader.page("ledger?party=bank&since=2025-01-01&until=2025-02-01"))
    assert "No randomised cell had left by the end of the period." in nothing


def test_what_was_decided_is_on_the_statement(reader: Reader, shown: Workspace) -> None:
    run = Run("credit_scoring", SECOND_RUN, "credit")
    note_refused(site_of("bank")[0], run, "desensitize", BudgetError("No budget is left."))
    text = plain(reader.page("ledger?since=2026-01-01&party=bank"))
    assert "refused" in text and "No budget is left." in text
    assert "1 agreed" in text
    assert "This period ends before it begins" in plain(
        reader.page("ledger?party=bank&since=2026-02-01&until=2026-01-01")
    )


def test_one_click_leads_to_last_night(reader: Reader, nights: Workspace) -> None:
    page = reader.page("ledger?party=bank")
    (night,) = re.findall(r'href="/opboost/(ledger[^"]*)">Last night<', page)
    text = plain(reader.page(unescape(night)))
    assert "What each feature has cost in the period" in text
    assert "Last night" in text

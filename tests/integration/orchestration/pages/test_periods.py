"""The ledger's statement of a period."""

import csv
import io
import re
from datetime import UTC, datetime
from html import unescape

import pytest

from opboost_ops.config.loading import site_of
from opboost_ops.errors import BudgetError
from opboost_ops.pipeline.party.inbox import Run, note_refused
from opboost_ops.reports.ledger import charged, sum_of
from tests.federation import SECOND_RUN, Workspace
from tests.integration.orchestration.pages.conftest import Reader
from tests.integration.orchestration.pages.reading import plain
from tests.party_state import state_of

DAYS = "since=2026-01-08&until=2026-01-12"


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
    with state_of(nights, "bank") as state:
        dated = state.ledger.dated()
    for name, first in (("in the period", "2026-01-08"), ("at its end", "2026-01-01")):
        entries = [one for at, one in dated if first <= at[:10] <= "2026-01-12"]
        shown = [float(line[heads.index(f"loss {name}")]) for line in found]
        assert sum(shown) == pytest.approx(sum_of(charged(entries)))
    text = plain(reader.page(f"ledger?party=bank&{DAYS}"))
    assert "2026-01-08 to 2026-01-12" in text
    assert head in text
    nothing = plain(reader.page("ledger?party=bank&since=2025-01-01&until=2025-02-01"))
    assert "No release had opened by the end of the period." in nothing


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
    assert "What each column has cost in the period" in text
    assert "Last night" in text

"""What pages keep of a party's books hides nothing: after any change all is read again."""

import json
import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from opboost_ops.config.loading import site_of
from opboost_ops.exchange import audit
from opboost_ops.exchange.books import open_books
from opboost_ops.pages import exchange, kept, kept_log, ledger
from opboost_ops.pages.deployment import Query
from opboost_ops.pages.kept_ledger import ledger_of
from opboost_ops.privacy.ledger import Ledger
from tests.federation import FIRST_RUN, Workspace
from tests.unit.pages.conftest import Reader
from tests.unit.pages.test_pages import plain


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many entries each verification has hashed; changes count as settled at once."""
    found: list[int] = []

    def counted(rows: Iterable[audit.LogRow]) -> tuple[int, str]:
        given = [*rows]
        found.append(len(given))
        return audit.verified(given)

    monkeypatch.setattr(kept_log, "verified", counted)
    monkeypatch.setattr(kept, "_SETTLED", 0)
    return found


def books_of(shown: Workspace, party: str = "bank") -> Path:
    return shown.folder / party / "ledger.sqlite"


def test_a_second_look_verifies_and_reads_nothing(
    reader: Reader, shown: Workspace, verified: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    read = Ledger.lines

    def counted(ledger: Ledger) -> Any:
        lines.append("all")
        return read(ledger)

    monkeypatch.setattr(Ledger, "lines", counted)
    first = reader.page("exchange?party=bank")
    with open_books(site_of("bank")[0]) as books:
        entries, head = books.audit.verify()
    assert verified == [entries]
    assert f"{entries:,} entries, head {head[:16]}, all verified 20" in plain(first)
    assert reader.page("exchange?party=bank") == first
    assert verified == [entries]
    for page in ("statement?party=bank", "ledger?party=bank", "status", "monthly"):
        reader.page(page)
        reader.page(page)
    # Each party's lines once for all pages, and none of its entries again.
    assert (verified, lines) == ([entries], ["all"] * 3)
    assert books_of(shown).is_file()


def test_after_an_entry_more_all_are_verified_again(
    reader: Reader, shown: Workspace, verified: list[int]
) -> None:
    reader.page("exchange?party=bank")
    with open_books(site_of("bank")[0]) as books:
        books.audit.add("rejected", f"credit_scoring/{shown.run}/digests", "shop", "", "replayed")
    assert "replayed" in reader.page("exchange?party=bank")
    assert verified[1] - verified[0] == 1
    assert len(verified) == 2


def test_an_old_entry_that_is_changed_is_found_although_the_file_seems_the_same(
    reader: Reader, shown: Workspace, verified: list[int]
) -> None:
    assert "unbroken" in reader.page("exchange?party=bank")
    path = books_of(shown)
    before = path.stat()
    with sqlite3.connect(path) as connection:
        (text,) = connection.execute("SELECT entry FROM audit WHERE number = 2").fetchone()
        entry = json.loads(text)
        entry["at"] = entry["at"].replace("20", "19", 1)
        changed = json.dumps(entry, sort_keys=True, separators=(",", ":"))
        connection.execute("UPDATE audit SET entry = ? WHERE number = 2", (changed,))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert "The audit log is broken at entry 2." in plain(reader.page("exchange?party=bank"))
    assert len(verified) == 2
    assert "broken" in plain(reader.page("statement?party=bank"))


def test_a_file_that_has_just_changed_is_not_trusted(
    reader: Reader, shown: Workspace, verified: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a tick of the file system's clock two changes have one time."""
    monkeypatch.setattr(kept, "_SETTLED", 10**18)
    reader.page("exchange?party=bank")
    reader.page("exchange?party=bank")
    assert len(verified) == 2
    assert books_of(shown).is_file()


def test_nothing_is_kept_of_a_database_that_is_no_file() -> None:
    assert kept._state("postgresql://ledger/books") is None
    assert kept._state("sqlite:////no/such/file.sqlite") is None


@pytest.mark.usefixtures("shown")
def test_what_a_reader_may_not_see_is_not_shown_from_memory() -> None:
    """What is kept is all of it; who may see which part is asked at each look."""
    for build in (exchange.build, ledger.build):
        everything = str(build("bank", Query(lambda _: True)))
        nothing = str(build("bank", Query(lambda _: False)))
        assert FIRST_RUN in everything
        assert FIRST_RUN not in nothing
    assert ledger_of(site_of("bank")[0]).lines

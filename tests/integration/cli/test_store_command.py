"""`opboost store`."""

import json
import os
import sqlite3
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from opboost_ops.config.loading import load_site
from opboost_ops.exchange.audit import Audit
from opboost_ops.exchange.party_state import open_state
from opboost_ops.exchange.store.store import LocalStore
from tests.integration.cli.conftest import Opboost

FILES = {"manifest.json": b"{}", "manifest.sig": b"s"}
OLD, NEW, STRANGE = ("0" * 15 + digit for digit in "123")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    write_site(tmp_path)
    store = LocalStore(tmp_path / "exchange")
    for run in (OLD, NEW, STRANGE):
        for kind in ("shares", "ranks"):
            store.put_once(f"toy/{run}/{kind}/bank", FILES)
    for run in (OLD, NEW):
        home = tmp_path / "home" / "toy" / run
        home.mkdir(parents=True)
        (home / "memory.json").write_text("{}")
    return tmp_path


def write_site(folder: Path, more: str = "", store: str = "exchange") -> None:
    text = f"version: 1\nparty: bank\nstore: {store}\n{more}"
    (folder / "site.yaml").write_text(text)


def used(site: Path, monkeypatch: pytest.MonkeyPatch, run: str, days: float) -> None:
    """A run whose last entry in the audit log is so old."""
    at = (datetime.now(UTC) - timedelta(days)).isoformat(timespec="seconds")
    with monkeypatch.context() as patch, open_state(load_site(site / "site.yaml")) as state:
        patch.setattr("opboost_ops.exchange.audit.now", lambda: at)
        state.audit.add("sent", f"toy/{run}/ranks/bank", "shop")


def last_entry(site: Path) -> tuple[str, str, str]:
    with open_state(load_site(site / "site.yaml")) as state:
        state.audit.verify()
        *_, (_, entry, _) = state.audit.entries()
    return entry.action, entry.place, entry.detail


def runs(site: Path) -> set[str]:
    return {place.split("/")[1] for place in LocalStore(site / "exchange").list("")}


def test_list(site: Path, opboost: Opboost) -> None:
    output = opboost("store", "list", site).output
    assert all(text in output for text in (OLD, NEW, "shares", "ranks", "6 artifacts."))
    found = json.loads(opboost("store", "list", site, "--json").output)
    assert {f"toy/{OLD}/ranks/bank", f"toy/{OLD}/shares/bank"} < set(found)
    # What another party put where no artifact lies hides nothing.
    (site / "exchange" / "strange").mkdir()
    (site / "exchange" / "strange" / "manifest.json").write_text("{}")
    output = opboost("store", "list", site).output
    assert all(text in output for text in (OLD, "strange", "7 artifacts."))


def test_gc_removes_what_writers_left(site: Path, opboost: Opboost) -> None:
    part = site / "exchange" / "toy" / OLD / ".part-0123"
    part.mkdir()
    (part / "table.parquet").write_bytes(b"x")
    assert "Removed 0 unfinished and 0 old." in opboost("store", "gc", site).output
    yesterday = time.time() - 25 * 3600
    for path in (part / "table.parquet", part):
        os.utime(path, (yesterday, yesterday))
    dry = opboost("store", "gc", site, "--dry-run").output
    assert f"Would remove toy/{OLD}/.part-0123" in dry
    assert "Would remove 1 unfinished and 0 old." in dry
    assert part.exists()
    output = opboost("store", "gc", site).output
    assert f"Removed toy/{OLD}/.part-0123" in output
    assert not part.exists()
    assert runs(site) == {OLD, NEW, STRANGE}


def test_retention(site: Path, opboost: Opboost, monkeypatch: pytest.MonkeyPatch) -> None:
    used(site, monkeypatch, OLD, 31)
    used(site, monkeypatch, NEW, 31)
    used(site, monkeypatch, NEW, 29)
    assert "0 old." in opboost("store", "gc", site).output
    write_site(site, "keep_runs_days: 30\n")
    dry = opboost("store", "gc", site, "--dry-run").output
    assert f"Would remove toy/{OLD}: 2 artifacts" in dry
    assert runs(site) == {OLD, NEW, STRANGE}
    assert last_entry(site)[0] == "sent"
    output = opboost("store", "gc", site).output
    assert f"Removed toy/{OLD}: 2 artifacts" in output
    assert "Removed 0 unfinished and 1 old." in output
    assert runs(site) == {NEW, STRANGE}
    assert [path.name for path in (site / "home" / "toy").iterdir()] == [NEW]
    assert last_entry(site) == ("removed", f"toy/{OLD}", "2 artifacts, by retention")
    assert "0 old." in opboost("store", "gc", site).output


def test_retention_ends_cached_work_of_former_runs(site: Path, opboost: Opboost) -> None:
    """It follows from people's rows, and lies beside the runs."""
    write_site(site, "keep_runs_days: 30\n")
    folder = site / "home" / "toy"
    kept = [folder / n for n in ("alone.json", "alone.npy", "trained.json", "trained.model")]
    for path, days in [(path, days) for path in kept for days in (29, 31)]:
        path.write_bytes(b"{}")
        then = time.time() - days * 86_400
        os.utime(path, (then, then))
        opboost("store", "gc", site, "--dry-run")
        assert path.exists()
        opboost("store", "gc", site)
        assert path.exists() == (days < 30)


def test_a_removal_that_was_cut_short_is_finished(
    site: Path, opboost: Opboost, monkeypatch: pytest.MonkeyPatch
) -> None:
    used(site, monkeypatch, OLD, 31)
    write_site(site, "keep_runs_days: 30\n")
    LocalStore(site / "exchange").remove_run("toy", OLD)
    assert f"Removed toy/{OLD}: 0 artifacts" in opboost("store", "gc", site).output
    assert not (site / "home" / "toy" / OLD).exists()


def test_a_forged_log_removes_nothing(
    site: Path, opboost: Opboost, monkeypatch: pytest.MonkeyPatch
) -> None:
    used(site, monkeypatch, NEW, 1)
    write_site(site, "keep_runs_days: 30\n")
    connection = sqlite3.connect(site / "ledger.sqlite")
    with connection:
        connection.execute("UPDATE audit SET entry = replace(entry, '\"20', '\"19')")
    connection.close()
    assert "broken at entry 1." in opboost("store", "gc", site).error
    assert runs(site) == {OLD, NEW, STRANGE}


@pytest.mark.parametrize("place", ["../../x/y", "toy/../ranks/bank", "toy/./ranks/bank"])
def test_places_in_the_log_lead_nowhere_else(
    site: Path, opboost: Opboost, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    original = Audit.add
    monkeypatch.setattr(Audit, "add", lambda self, action, _, party: original(
        self, action, place, party))  # fmt: skip
    used(site, monkeypatch, OLD, 31)
    write_site(site, "keep_runs_days: 30\n")
    assert "not a place in a store" in opboost("store", "gc", site).error
    assert (site / "home" / "toy" / OLD / "memory.json").exists()


@pytest.mark.parametrize("command", ["list", "gc"])
def test_a_network_that_fails_is_one_error(
    site: Path, opboost: Opboost, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def fail(*_: object) -> list[str]:
        raise ConnectionError("toy: the store's network failed (EHOSTDOWN).")

    for name in ("list", "collect"):
        monkeypatch.setattr(LocalStore, name, fail)
    assert "network failed" in opboost("store", command, site).error

"""Older and partial books put back, in every sensible way: each is found, none is silent."""

import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from opboost_ops.cli import app
from opboost_ops.config.loading import load_site
from opboost_ops.datasets.workspace import agree_for_all
from opboost_ops.errors import PolicyError
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.run import admission
from opboost_ops.run.admission import REFUSED
from opboost_ops.run.gaps import check
from opboost_ops.run.inbox import Run
from opboost_ops.run.opening import open_run
from opboost_ops.run.runner import run_stage
from tests.books import books_of
from tests.federation import FIRST_RUN, SECOND_RUN, Workspace
from tests.older_books import (
    OLDER,
    PARTY,
    PLACES,
    charged,
    drill,
    found,
    put_back,
    recovered,
    refused,
    two_nights,
)


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Workspace, Workspace]]:
    """The federation after its first run, and after its second on another table."""
    folder = tmp_path_factory.mktemp("nights")
    first = Workspace.write(folder / "first")
    with pytest.MonkeyPatch.context() as patch:
        first.known_to(patch)
        second = two_nights(folder / "second", first, lambda made: made.known_to(patch))
    yield first, second


@pytest.fixture
def now(
    nights: tuple[Workspace, Workspace], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Workspace:
    """A copy of the federation after its second run, about to begin its third."""
    copy = nights[1].copy(tmp_path / "federation", "0" * 15 + "3")
    copy.known_to(monkeypatch)
    return copy


def test_whole_books_have_no_gap(nights: tuple[Workspace, Workspace]) -> None:
    for night in nights:
        for party in night.declared.parties:
            assert check(load_site(night.folder / party / "site.yaml")) == []


@pytest.mark.parametrize("names", OLDER, ids="+".join)
def test_what_is_older_is_found_refused_and_charged(
    nights: tuple[Workspace, Workspace], now: Workspace, names: tuple[str, ...]
) -> None:
    copy = now.folder / PARTY / "ledger.sqlite.before-recovered"
    drill(lambda: put_back(now, nights[0], *names), now, names, copy.is_file)


def test_where_everything_was_put_back_others_have_seen_it(
    nights: tuple[Workspace, Workspace], now: Workspace
) -> None:
    before = charged(now)
    put_back(now, nights[0], "database", "cells", "home")
    store = now.folder / PLACES["store"] / "credit_scoring" / SECOND_RUN
    shutil.rmtree(store)
    # But for what it has agreed to, which has a file of its own.
    assert {gap.missing for gap in found(now)} == {"the agreement credit_scoring/agreement/2"}
    assert "run number 2 of bank" in refused(now)
    assert "heads" in {gap.lacks for gap in found(now)}
    assert recovered(now).accepted > 0
    assert found(now) == []
    after = charged(now)
    assert all(after[name][i] >= before[name][i] for name in before for i in (0, 1))


def test_whoever_publishes_over_older_books_is_refused_by_the_receiver(
    nights: tuple[Workspace, Workspace], now: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_back(now, nights[0], "database", "cells", "home")
    # A party that would not look at its own books.
    monkeypatch.setattr(admission, "gaps_before", lambda *_: [])
    step, error = now.first_failure()
    assert step.startswith("credit")
    assert isinstance(error, Rejected)
    assert error.reason == "older_books"
    assert "the books of bank" in str(error)
    with books_of(now, "credit") as books:
        assert books.audit.of("rejected")[-1].detail == "older_books"
    # The owner is told by the next plan, which says what was seen.
    monkeypatch.undo()
    later = Workspace(now.folder, "0" * 15 + "4")
    later.known_to(monkeypatch)
    assert "run number 2 of bank" in refused(later)


def test_a_label_holder_whose_books_went_back_is_refused_before_anything_leaves(
    nights: tuple[Workspace, Workspace], now: Workspace
) -> None:
    for name in ("ledger.sqlite", "agreement.json", "home"):
        old, new = (night.folder / "credit" / name for night in (nights[0], now))
        shutil.rmtree(new) if new.is_dir() else new.unlink()
        shutil.copytree(old, new) if old.is_dir() else shutil.copy(old, new)
    now.edit_yaml("federation.yaml", lambda data: None)
    step, error = now.first_failure()
    assert step in (f"{PARTY}.check_table", "shop.check_table"), error
    assert isinstance(error, Rejected)
    assert error.reason == "older_books"
    assert {place.rpartition("/")[2] for place in now.published()} == {"credit"}
    gaps = check(load_site(now.folder / "credit" / "site.yaml"))
    assert {gap.lacks for gap in gaps} >= {"ledger", "heads"}


def test_what_one_federation_has_lost_stops_the_next_run_of_another(
    nights: tuple[Workspace, Workspace], now: Workspace
) -> None:
    """The same columns are charged in both, so going over to the other one is no way around."""
    put_back(now, nights[0], "database", "cells")
    other = now.file.with_name("other.yaml")
    other.write_text(now.file.read_text().replace("credit_scoring", "another"))
    for path in now.folder.glob("*/site.yaml"):
        path.write_text(path.read_text().replace("  credit_scoring:", "  another:"))
    agree_for_all(other)
    open_run(other, now.run, {})
    with pytest.raises(PolicyError, match=f"{PARTY} refused run"):
        run_stage(PARTY, "check_table", Run("another", now.run, "credit"))
    why = (now.folder / PARTY / "home" / "another" / now.run / REFUSED).read_text()
    assert f"of run {SECOND_RUN} of credit_scoring" in why


def test_a_run_goes_on_after_recovery(nights: tuple[Workspace, Workspace], now: Workspace) -> None:
    put_back(now, nights[0], "database")
    site = str(now.folder / PARTY)
    done = CliRunner().invoke(app, ["ledger", "recover", site])
    assert done.exit_code == 1
    assert found(now)
    done = CliRunner().invoke(app, ["ledger", "recover", site, "--yes"])
    assert done.exit_code == 0, done.output
    now.all()
    assert found(now) == []
    assert "have lost nothing" in CliRunner().invoke(app, ["ledger", "recover", site]).output


def test_a_database_that_is_gone_is_not_made_anew(now: Workspace) -> None:
    database = now.folder / PLACES["database"]
    database.unlink()
    (gap,) = found(now)
    assert gap.lacks == "ledger"
    step, error = now.first_failure()
    assert step.startswith(PARTY)
    assert "opboost ledger recover" in str(error)
    assert not [place for place in now.published() if place.endswith(f"/{PARTY}")]
    assert not database.exists()


def test_entries_cut_off_the_end_of_the_log_are_found(now: Workspace) -> None:
    with sqlite3.connect(now.folder / PLACES["database"]) as database:
        (entries,) = database.execute("SELECT count(*) FROM audit").fetchone()
        database.execute("DELETE FROM audit WHERE number > ?", (entries - 3,))
    assert {gap.lacks for gap in found(now)} == {"audit"}


def test_the_command_names_each_gap_and_ends_with_1(
    nights: tuple[Workspace, Workspace], now: Workspace
) -> None:
    site = str(now.folder / PARTY)
    done = CliRunner().invoke(app, ["ledger", "check", site, "--json"])
    assert done.exit_code == 0
    assert json.loads(done.output)["gaps"] == []
    put_back(now, nights[0], "database")
    done = CliRunner().invoke(app, ["ledger", "check", site, "--json"])
    assert done.exit_code == 1
    gaps = json.loads(done.output.splitlines()[0])["gaps"]
    assert {gap["run"] for gap in gaps} == {SECOND_RUN, ""}
    assert FIRST_RUN not in done.output
    printed = CliRunner().invoke(app, ["ledger", "check", site]).output
    assert "ledger lacks ranks/bank" in printed
    assert "draws 2 to 2 of income" in printed

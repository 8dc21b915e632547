"""The books on PostgreSQL: a race for the last of a budget, and a whole run."""

import uuid
from pathlib import Path

import pytest
import sqlalchemy as sa
import yaml

from opboost_ops.config.loading import load_policy, load_site
from opboost_ops.domain import Domain
from opboost_ops.errors import PolicyError
from opboost_ops.mechanisms import GlobalMap
from opboost_ops.privacy.cells import Cells
from opboost_ops.privacy.database import Database
from opboost_ops.privacy.events import Release
from opboost_ops.privacy.ledger import Ledger
from opboost_ops.privacy.loss import loss_curve
from opboost_ops.privacy.migrations import upgrade
from opboost_ops.run.gaps import check
from opboost_ops.run.recovery import recover
from tests.books import books_of
from tests.federation import Workspace
from tests.unit.privacy.test_race import FITS, PROCESSES, race

pytestmark = pytest.mark.slow


def test_sixteen_racing_processes_never_overspend(postgres: str, tmp_path: Path) -> None:
    told = race(postgres, tmp_path / "cells")
    assert told.count("refused") == PROCESSES - FITS
    assert len(Ledger(Database(postgres)).releases()) == FITS


def test_racing_processes_never_pass_the_cap_on_changes(postgres: str, tmp_path: Path) -> None:
    assert len(set(race(postgres, tmp_path / "cells", PROCESSES, 2))) == 2


@pytest.fixture
def kept_there(tmp_path: Path, postgres: str, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A federation whose bank keeps its books on PostgreSQL from the beginning."""
    workspace = Workspace.write(tmp_path / "federation")
    monkeypatch.setenv("BANK_LEDGER", postgres)
    folder = workspace.folder / "bank"
    site = yaml.safe_load((folder / "site.yaml").read_text())
    (folder / "site.yaml").write_text(yaml.safe_dump({**site, "ledger": "env:BANK_LEDGER"}))
    # What it has agreed to is in its books, too.
    (folder / "agreement.json").unlink()
    (folder / "ledger.sqlite").unlink()
    workspace.known_to(monkeypatch)
    workspace.agree()
    return workspace


def test_a_whole_run_with_its_books_there(kept_there: Workspace) -> None:
    workspace = kept_there
    workspace.all()
    with books_of(workspace, "bank") as books:
        kinds = {r.kind for r in books.ledger.releases() if r.run == workspace.run}
        assert {"digests", "ranks", "holdout", "split_values"} <= kinds
        assert books.ledger.uncommitted() == []
        entries, _ = books.audit.verify()
        assert entries >= 6


def test_an_older_database_is_found_refused_and_charged(
    kept_there: Workspace, postgres: str
) -> None:
    kept_there.all()
    engine = sa.create_engine(postgres)
    tables = sa.MetaData()
    tables.reflect(engine)
    with engine.begin() as connection:
        older = {
            table: [dict(row._mapping) for row in connection.execute(sa.select(table))]
            for table in tables.sorted_tables
        }
    second = Workspace(kept_there.folder, "0" * 15 + "2")
    second.edit_table("bank", lambda t: t.with_columns(t["income"].reverse()))
    second.all()
    folder = second.folder / "bank"
    site, policy = load_site(folder / "site.yaml"), load_policy(folder / "policy.yaml")
    assert check(site) == []
    with engine.begin() as connection:
        for table, rows in older.items():
            connection.execute(sa.delete(table))
            if rows:
                connection.execute(sa.insert(table), rows)
    assert {gap.lacks for gap in check(site)} >= {"ledger", "audit", "heads"}
    third = Workspace(kept_there.folder, "0" * 15 + "3")
    step, error = third.first_failure()
    assert step == "bank.check_table"
    assert isinstance(error, PolicyError)
    assert "run number 2 of bank" in third.reason("bank")
    assert recover(site, policy).lines
    assert check(site) == []
    with engine.connect() as connection:
        kept = connection.execute(sa.text("SELECT count(*) FROM releases_before_recovered"))
        assert kept.scalar() == len(older[tables.tables["releases"]])
    with engine.begin() as connection:
        for table in older:
            connection.execute(sa.delete(table))
    assert [gap.missing for gap in check(site)] == ["all of it: the database is gone, or empty"]


def test_a_former_ledger_is_migrated_with_copies_beside(postgres: str, tmp_path: Path) -> None:
    event = Release(
        federation="credit",
        run="0" * 16,
        party="bank",
        receiver="lender",
        kind="ranks",
        artifact="a" * 64,
        account="local_dp",
        feature="age",
        column=uuid.UUID(int=1),
        cells="0" * 16,
        draws="a",
        loss=loss_curve(GlobalMap(epsilon=0.5), Domain(1, 10)),
        rows=2,
    )
    engine = sa.create_engine(postgres)
    with engine.begin() as connection:
        connection.execute(
            sa.text(
                "CREATE TABLE releases (id SERIAL PRIMARY KEY, recorded_at VARCHAR(40), artifact "
                "VARCHAR(64), feature VARCHAR(160), event JSON, UNIQUE (artifact, feature))"
            )
        )
        connection.execute(sa.text("CREATE TABLE commits (artifact VARCHAR(64) PRIMARY KEY, "
                                   "committed_at VARCHAR(40))"))  # fmt: skip
        line = {"artifact": event.artifact, "event": event.model_dump_json(exclude={"draw"})}
        connection.execute(
            sa.text(
                "INSERT INTO releases (recorded_at, artifact, feature, event) VALUES ('', "
                ":artifact, 'age', :event)"
            ),
            line,
        )
    database = Database(postgres)
    upgrade(database, Cells(tmp_path / "cells"))
    (former,) = [r for r in Ledger(database).releases() if r.kind == "former"]
    assert former.draw is not None
    assert (former.draw.worst, former.draw.stands_for) == (1, 1)
    with engine.connect() as connection:
        kept = connection.execute(sa.text("SELECT count(*) FROM releases_before_2")).scalar()
        assert kept == 1
    assert Ledger(Database(postgres)).worst(uuid.UUID(int=1), "0" * 16).values == 1

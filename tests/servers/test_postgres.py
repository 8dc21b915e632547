"""A party's state on PostgreSQL: races for a budget, whole runs, and older states put back."""

import os
import uuid
from pathlib import Path

import pytest
import sqlalchemy as sa
import yaml

from opboost_ops.config.loading import load_site
from opboost_ops.domain import Domain
from opboost_ops.exchange.migrations import upgrade
from opboost_ops.mechanisms import GlobalMap
from opboost_ops.privacy.cells import Cells
from opboost_ops.privacy.database import Database
from opboost_ops.privacy.events import Release
from opboost_ops.privacy.ledger import Ledger
from opboost_ops.privacy.loss import loss_curve
from opboost_ops.run.rollback import check
from tests.federation import FIRST_RUN, SECOND_RUN, Workspace
from tests.party_state import state_of
from tests.servers.conftest import created
from tests.unit.privacy.test_race import FITS, PROCESSES, race
from tests.unit.run.test_rollback import PARTY, PUT_BACK, drill, put_back

pytestmark = pytest.mark.slow


def test_sixteen_racing_processes_never_overspend(postgres: str, tmp_path: Path) -> None:
    told = race(postgres, tmp_path / "cells", processes=16)
    assert told.count("refused") == 16 - FITS
    assert len(Ledger(Database(postgres)).releases()) == FITS


def test_racing_processes_never_pass_the_cap_on_changes(postgres: str, tmp_path: Path) -> None:
    assert len(set(race(postgres, tmp_path / "cells", PROCESSES, 2))) == 2


def name_of(url: str) -> str:
    return url.rpartition("/")[2]


@pytest.fixture(scope="module")
def nights(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: str
) -> tuple[Workspace, Workspace, str, str]:
    """Two runs of a federation whose bank keeps its state on PostgreSQL from the beginning.

    The federation after the first and after the second, with a database for each.
    """
    folder = tmp_path_factory.mktemp("nights")
    first = Workspace.write(folder / "first")
    bank = first.folder / PARTY
    site = yaml.safe_load((bank / "site.yaml").read_text())
    (bank / "site.yaml").write_text(yaml.safe_dump({**site, "ledger": "env:BANK_LEDGER"}))
    # What it has agreed to is in its database, too.
    (bank / "ledger.sqlite").unlink()
    urls = [created(postgres_server)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BANK_LEDGER", urls[0])
        first.known_to(patch)
        first.agree()
        first.all()
        second = first.copy(folder / "second", SECOND_RUN)
        urls.append(created(postgres_server, name_of(urls[0])))
        patch.setenv("BANK_LEDGER", urls[1])
        second.known_to(patch)
        second.edit_table(PARTY, lambda t: t.with_columns(t["income"].reverse()))
        second.all()
    return first, second, urls[0], urls[1]


@pytest.fixture
def now(
    nights: tuple[Workspace, Workspace, str, str],
    postgres_server: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Workspace:
    """A copy of it after its second run, about to begin its third."""
    copy = nights[1].copy(tmp_path / "federation", "0" * 15 + "3", monkeypatch)
    monkeypatch.setenv("BANK_LEDGER", created(postgres_server, name_of(nights[3])))
    return copy


def test_whole_runs_with_their_state_there(now: Workspace) -> None:
    with state_of(now, PARTY) as state:
        for run in (FIRST_RUN, SECOND_RUN):
            mine = [r for r in state.ledger.releases() if r.run == run]
            assert [line for _, line in state.ledger.of_run("credit_scoring", run)] == mine
            kinds = {r.kind for r in mine}
            assert {"psi_answer", "shares", "ranks", "split_values"} <= kinds
        assert state.ledger.uncommitted() == []
        entries, _ = state.audit.verify()
        assert entries >= 12
    assert check(now.site(PARTY)) == []


@pytest.mark.parametrize("what", PUT_BACK)
def test_a_rollback_is_noticed_before_anything_is_released(
    nights: tuple[Workspace, Workspace, str, str],
    now: Workspace,
    postgres_server: str,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
) -> None:
    def put() -> None:
        database, *others = PUT_BACK[what] if what != "cells" else ("", "bank/cells")
        names = (database, *others) if database == "bank" else tuple(others)
        put_back(now, nights[0].folder, names)
        if database:
            monkeypatch.setenv("BANK_LEDGER", created(postgres_server, name_of(nights[2])))

    drill(now, put)


def test_a_database_that_is_emptied_is_not_made_anew(now: Workspace) -> None:
    engine = sa.create_engine(os.environ["BANK_LEDGER"])
    tables = sa.MetaData()
    tables.reflect(engine)
    with engine.begin() as connection:
        for table in tables.sorted_tables:
            connection.execute(sa.delete(table))
    engine.dispose()
    found = check(now.site(PARTY))
    assert [gap.missing for gap in found] == ["all of it: the database is gone, or empty"]


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
    (tmp_path / "site.yaml").write_text("version: 1\nparty: bank\nstore: store\n")
    cells = Cells(tmp_path / "cells", database)
    upgrade(database, cells, load_site(tmp_path / "site.yaml"))
    (former,) = [r for r in Ledger(database).releases() if r.kind == "former"]
    assert former.draw is not None
    assert (former.draw.worst, former.draw.stands_for) == (1, 1)
    with engine.connect() as connection:
        kept = connection.execute(sa.text("SELECT count(*) FROM releases_before_3")).scalar()
        assert kept == 1
    assert Ledger(Database(postgres)).worst(uuid.UUID(int=1), "0" * 16).values == 1

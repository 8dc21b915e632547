"""A party's state on PostgreSQL: races for a budget, whole runs, and older states put back."""

import os
from pathlib import Path

import pytest
import sqlalchemy as sa
import yaml

from opboost_ops.pipeline.party.rollback import check
from tests.commands import printed
from tests.federation import FIRST_RUN, SECOND_RUN, Workspace
from tests.integration.pipeline.party.test_rollback import PARTY, PUT_BACK, drill, put_back
from tests.party_state import state_of
from tests.servers.conftest import created

pytestmark = pytest.mark.slow


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
        # The second run opens a release of its own, with pins of its own.
        printed("ledger", "renew", second.folder / PARTY, "income", "--yes")
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
            mine = [r for r in state.ledger.entries() if r.run == run]
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
        database, *others = PUT_BACK[what] if what != "pins" else ("", "bank/pins")
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

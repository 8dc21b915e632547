"""What release 0.2.0 left at three parties is migrated: accounts, agreements, stops, cells."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner

from opboost_ops.cli import app
from opboost_ops.config.loading import load_site
from opboost_ops.errors import ConfigError
from opboost_ops.exchange import migrations
from opboost_ops.exchange.party_state import agreements_of, open_state
from opboost_ops.privacy.accountant import accounts
from opboost_ops.run.taking_part import stopped
from tests.archives import unpack

ARCHIVE = Path(__file__).with_name("site-0.2.0.tar.xz")
PARTIES = ("credit", "bank", "shop")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    unpack(ARCHIVE, tmp_path, "tar")
    return tmp_path / "site-0.2.0"


def shown(*words: str) -> dict[str, object]:
    done = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("party", PARTIES)
def test_accounts_say_what_they_said(site: Path, party: str) -> None:
    before = json.loads((site / "said" / f"ledger_{party}.json").read_text())
    after = shown("ledger", "show", str(site / party), "--people")
    for old, new in zip(before["columns"], after["columns"], strict=True):  # type: ignore[call-overload]
        assert {name: new[name] for name in old if name in new} == old
    assert after["people"]["columns"] == before["people"]["columns"]  # type: ignore[index]
    declared = load_site(site / party / "site.yaml")
    with open_state(declared) as state:
        assert state.audit.verify()[0] > 10
        assert state.ledger.accounts() == accounts(state.ledger.releases())
        assert state.lost_states() == []
    agreed = json.loads((site / "said" / f"agreed_{party}.json").read_text())["agreements"]
    found = [a.model_dump(exclude={"content"}) for a in agreements_of(declared).agreements]
    assert found == agreed
    left = {path.name for path in (site / party).iterdir()}
    assert "ledger.sqlite.before-3" in left
    assert not left & {"agreement.json", "stopped.json"}


def test_a_stop_and_the_forgotten_are_taken_over(site: Path) -> None:
    with open_state(load_site(site / "shop" / "site.yaml")) as state:
        assert stopped(state, "loans") is not None
    with open_state(load_site(site / "bank" / "site.yaml")) as state:
        assert len(state.forgotten.read()) == 1
        assert len(state.forgotten.read().hashes()) > 1


def test_a_migration_that_fails_changes_nothing(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = load_site(site / "bank" / "site.yaml")
    before = sqlite3.connect(site / "bank" / "ledger.sqlite").execute("SELECT * FROM draws")
    rows = before.fetchall()

    def killed(*_: object) -> None:
        raise OSError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(migrations, "_adopt_stops", killed)
        with pytest.raises(OSError, match="killed"), open_state(declared):
            pass
    connection = sqlite3.connect(site / "bank" / "ledger.sqlite")
    assert connection.execute("SELECT * FROM draws").fetchall() == rows
    assert connection.execute("SELECT max(version) FROM schema").fetchone() == (2,)
    assert declared.agreement.is_file()
    with open_state(declared) as state:
        assert state.lost_states() == []


def test_an_agreement_edited_by_hand_is_not_migrated(site: Path) -> None:
    declared = load_site(site / "bank" / "site.yaml")
    data = json.loads(declared.agreement.read_bytes())
    data["agreements"][0]["digest"] = "0" * 64
    declared.agreement.write_text(json.dumps(data))
    with pytest.raises(ConfigError, match="changed outside"), open_state(declared):
        pass


def test_a_second_database_for_one_party_is_refused(site: Path) -> None:
    declared = load_site(site / "bank" / "site.yaml")
    with open_state(declared):
        pass
    other = declared.model_copy(update={"ledger": f"sqlite:///{site}/shop/ledger.sqlite"})
    with open_state(load_site(site / "shop" / "site.yaml")):
        pass
    with pytest.raises(ConfigError, match="belongs to shop"), open_state(other):
        pass
    shutil.copy(site / "bank" / "ledger.sqlite", site / "copy.sqlite")
    connection = sqlite3.connect(site / "copy.sqlite")
    connection.execute("UPDATE state SET id = 'another'")
    connection.commit()
    copied = declared.model_copy(update={"ledger": f"sqlite:///{site}/copy.sqlite"})
    with pytest.raises(ConfigError, match="two databases"), open_state(copied):
        pass

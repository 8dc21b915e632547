"""The upgrade with budgets: nights on unchanged tables cost one draw, before and after it."""

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from opboost_ops.config.loading import load_site
from opboost_ops.errors import BudgetError
from opboost_ops.exchange.party_state import open_state
from tests.archives import unpack
from tests.federation import Workspace
from tests.unit.cli.conftest import Opboost
from tests.unit.cli.conftest import opboost as opboost

#: How many nights the archives have.
FEW = 4

SEALED = {"seal_everybody": True, "max_new_queries": 1000, "max_queries_total": 10_000}


class Parties(Workspace):
    """The label holder and the bank of the archives."""

    def night(self, run: str) -> None:
        """One training under this release."""
        Workspace(self.folder, run).all()


def repeat(database: Path, nights: int) -> None:
    """Enter all that the last night has entered again, for so many nights, as its release did."""
    with closing(sqlite3.connect(database)) as connection, connection:
        *_, run = connection.execute(
            "SELECT json_extract(event, '$.run') FROM releases ORDER BY id DESC LIMIT 1"
        ).fetchone()
        lines = connection.execute(
            "SELECT recorded_at, artifact, feature, event FROM releases "
            "WHERE json_extract(event, '$.run') = ? ORDER BY id",
            (run,),
        ).fetchall()
        assert {json.loads(event)["kind"] for *_, event in lines} >= {"ranks", "holdout", "digests"}
        for night in range(nights):
            for at, artifact, feature, event in lines:
                name = hashlib.sha256(f"{night}/{artifact}".encode()).hexdigest()
                again = {**json.loads(event), "run": f"{night:016x}", "artifact": name}
                connection.execute(
                    "INSERT INTO releases (recorded_at, artifact, feature, event) "
                    "VALUES (?, ?, ?, ?)",
                    (at, name, feature, json.dumps(again)),
                )
                connection.execute("INSERT OR IGNORE INTO commits VALUES (?, ?)", (name, at))


def losses(shown: Mapping[str, Any]) -> dict[str, float]:
    """By feature and distance."""
    return {
        f"{column['feature']} {name}": column[name]
        for column in shown["columns"]
        for name in ("loss_1", "loss_whole")
    }


def upgraded(parties: Parties, release: str, opboost: Opboost) -> None:
    """The steps of `docs/upgrade.md`, from that release to this one."""
    (parties.folder / "bank" / "keys" / "alignment.key").unlink()
    federation = yaml.safe_load(parties.file.read_text())
    federation.pop("alignment", None)
    parties.file.write_text(yaml.safe_dump(federation, sort_keys=False))
    parties.edit_yaml("bank/policy.yaml", lambda policy: policy.update(alignment=SEALED))
    for party in ("bank", "credit"):
        site = parties.folder / party
        shown = yaml.safe_load(opboost("agree", site, parties.file, "--json").output)
        done = opboost("agree", site, parties.file, "--yes", shown["digest"])
        assert done.code == 0
        pinned = party == "bank" and release == "0.1.0"
        assert ("column 4c6579e1" in done.out) == pinned


@pytest.mark.parametrize(
    ("release", "nights"),
    [
        ("0.1.0", FEW),
        ("0.2.0", 365),
        pytest.param("0.1.0", 365, marks=pytest.mark.slow),
        pytest.param("0.2.0", FEW, marks=pytest.mark.slow),
    ],
)
def test_an_upgrade_changes_no_account(
    release: str,
    nights: int,
    tmp_path: Path,
    opboost: Opboost,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    unpack(Path(__file__).with_name(f"nights-{release}.tar.xz"), tmp_path, "tar")
    parties = Parties(tmp_path / "nights")
    parties.known_to(monkeypatch)
    bank = parties.folder / "bank"
    repeat(bank / "ledger.sqlite", nights - FEW)
    # What that release's own command printed after its fourth night.
    before = json.loads((parties.folder / "said" / "ledger_bank.json").read_text())
    # A value's 2.88, and 0.5 of the bit that says whether it is missing.
    assert losses(before)["income loss_whole"] == pytest.approx(3.38)

    upgraded(parties, release, opboost)
    printed = [record.message for record in caplog.records if "migration" in record.message]
    assert [text for text in printed if text.startswith("bank: ")] == [
        "bank: income: loss(R - L) is 3.3800, as before the migration (1 draw).",
        "bank: rating: loss(R - L) is 2.8800, as before the migration (1 draw).",
    ]
    after = json.loads(opboost("ledger", "show", bank, "--people", "--json").output)
    assert losses(after) == pytest.approx(losses(before))
    assert [(c["feature"], c["people"], c["most_changes"]) for c in after["people"]["columns"]] == [
        (c["feature"], c["people"], c["most_changes"]) for c in before["people"]["columns"]
    ]
    # The budget of 4.5 was enough for one draw, and the next night draws nothing.
    parties.night("a" * 16)
    again = json.loads(opboost("ledger", "show", bank, "--json").output)
    assert losses(again) == losses(after)
    with open_state(load_site(bank / "site.yaml")) as state:
        assert len({release.run for release in state.ledger.releases()}) > nights
    # One value that is new is another draw.
    path = bank / "tables" / "train.parquet"
    other = pl.when(pl.int_range(pl.len()) == 0).then(29_000.0).otherwise(pl.col("income"))
    pl.read_parquet(path).with_columns(income=other).write_parquet(path)
    with pytest.raises(BudgetError, match=r"income.budget_whole is 4.5, and would be 6.7600"):
        parties.night("b" * 16)

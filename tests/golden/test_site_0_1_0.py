"""What release 0.1.0 left at three parties opens, scores, retrains, rolls back and forgets."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import polars as pl
import pyarrow.feather as feather
import pytest
from typer.testing import CliRunner

from opboost_ops.cli import app
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.models.registry import Registry
from opboost_ops.privacy.accountant import accounts
from opboost_ops.privacy.model_account import account_of
from tests.archives import unpack
from tests.federation import Workspace
from tests.party_state import state_of

ARCHIVE = Path(__file__).with_name("site-0.1.0.tar.xz")
PARTIES = ("credit", "bank", "shop")
FIRST, SECOND, PRIVATE = "173470dfdf2ab6e2", "6e4708725bddd441", "c431010a7d3eaeea"
#: Whom the bank forgot under 0.1.0, and two people whom it still knew.
FORGOTTEN, KNOWN = "P00007", ("P00011", "P00012")


@dataclass
class Site(Workspace):
    """The three parties' folders."""

    name: str = "federation"

    @property
    def file(self) -> Path:
        return self.folder / f"{self.name}.yaml"

    def other(self, run: str, **of: Any) -> "Site":
        """Another run among the same parties."""
        return Site(self.folder, f"{run:0>16}", **of)

    def said(self, name: str) -> Any:
        """What 0.1.0 printed."""
        return json.loads((self.folder / "said" / f"{name}.json").read_text())

    def registry(self, federation: str = "loans") -> Registry:
        return Registry(self.site("credit").models, federation)

    def opboost(self, *words: str) -> str:
        done = CliRunner().invoke(app, list(words), catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    def shown(self, *words: str) -> Any:
        return json.loads(self.opboost(*words, "--json"))


def upgraded(site: Site) -> None:
    """The steps from 0.1.0, which was never released, to this release."""
    sealed = {"seal_everybody": True, "max_new_queries": 1000, "max_queries_total": 10_000}
    for party in ("bank", "shop"):
        site.edit_yaml(f"{party}/policy.yaml", lambda d: d.update(alignment=sealed))
        # With keyed digests each party had the label holder's key.
        (site.folder / party / "keys" / "alignment.key").unlink()
    site.edit_yaml(
        "loans_private.yaml", lambda d: d["training"]["private"].pop("trees_per_ensemble")
    )
    for party in PARTIES:
        for file in ("federation.yaml", "loans_private.yaml"):
            said = site.shown("agree", party, file)
            assert said["changes"]
            assert "agrees: number" in site.opboost("agree", party, file, "--yes", said["digest"])


@pytest.fixture(scope="module")
def upgraded_once(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The parties after the upgrade. Tests copy them and never change them."""
    folder = tmp_path_factory.mktemp("upgraded")
    unpack(ARCHIVE, folder, "tar")
    found = Site(folder / "site-0.1.0")
    with pytest.MonkeyPatch.context() as patch:
        found.known_to(patch)
        patch.chdir(found.folder)
        upgraded(found)
    return found


@pytest.fixture
def site(upgraded_once: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    found = Site(shutil.copytree(upgraded_once.folder, tmp_path / "site-0.1.0"))
    found.known_to(monkeypatch)
    monkeypatch.chdir(found.folder)
    return found


def losses(shown: Mapping[str, Any]) -> dict[str, tuple[int, float, float]]:
    """By feature: releases, loss(1) and loss(R-L)."""
    return {c["feature"]: (c["releases"], c["loss_1"], c["loss_whole"]) for c in shown["columns"]}


@pytest.mark.parametrize("party", PARTIES)
def test_ledger_and_audit_log_say_what_they_said(site: Site, party: str) -> None:
    shown, before = site.shown("ledger", "show", party, "--people"), site.said(f"ledger_{party}")
    expected = losses(before)
    if party == "bank":
        # A missing bit has two values: its four releases, of epsilon 0.5 each, cost two of them.
        releases, step, whole = expected["income"]
        expected["income"] = (releases, pytest.approx(step - 1), pytest.approx(whole - 1))
    assert losses(shown) == expected
    backup = site.folder / party / "ledger.sqlite.before-3"
    assert (backup.stat().st_mode & 0o077, backup.stat().st_size > 0) == (0, True)
    assert shown["models"]["epsilon"] == before["models"]["epsilon"]
    assert [line["kind"] for line in shown["exact"]] == [line["kind"] for line in before["exact"]]
    counted = {(c["feature"], c["people"], c["most_changes"]) for c in shown["people"]["columns"]}
    assert counted == {
        (c["feature"], c["people"], c["most_changes"]) for c in before["people"]["columns"]
    }
    assert "audit entries, head" in site.opboost("ledger", "check", party)
    with state_of(site, party) as state:
        assert state.ledger.uncommitted() == []
        entries, _ = state.audit.verify()
        assert entries > 10
        assert state.ledger.accounts() == accounts(state.ledger.releases())


def test_versions_are_listed_and_load_without_this_software(site: Site) -> None:
    shown = site.shown("models", "list", "credit", "--federation", "loans")
    before = site.said("models_loans")
    for new, old in zip(shown, before, strict=True):
        assert {key: new[key] for key in old} == old
    for federation, version in (("loans", FIRST), ("loans", SECOND), ("loans_private", PRIVATE)):
        text = site.registry(federation).file(version, "model.txt").decode()
        booster = lightgbm.Booster(model_str=text)
        assert booster.num_trees() > 0
        rows = np.full((1, booster.num_feature()), 3.0)
        assert 0 < booster.predict(rows)[0] < 1
        card = json.loads(
            site.opboost("models", "show", "credit", version, "--federation", federation, "--json")
        )
        assert card


def test_the_same_applicants_get_the_same_scores(site: Site) -> None:
    folder = site.folder / "credit" / "scores" / "loans" / SECOND
    (old,) = folder.glob("*.parquet")
    before = pl.read_parquet(old).sort("id")
    done = site.other("5c0e", purpose="score").all()["credit.write_scores"]
    after = pl.read_parquet(folder / done["file"]).sort("id")
    assert before.height > 15
    # The same cells, secret, map and channel: the same randomised values, and so the same scores.
    assert after.equals(before)
    site.registry().rollback("back to the first")
    site.other("5c0f", purpose="score").all()
    (scored,) = (site.folder / "credit" / "scores" / "loans" / FIRST).glob("*.parquet")
    assert set(pl.read_parquet(scored)["model_version"]) == {FIRST}


def test_retraining_on_the_same_tables_gives_the_same_model_and_no_new_values(site: Site) -> None:
    before = {p: site.shown("ledger", "show", p, "--people")["people"] for p in PARTIES}
    retrain = site.other("7e7a")
    retrain.all({"trees": 8})
    registry = site.registry()
    # Nobody's noise was drawn again by the upgrade: all trees are the same to the byte. (What
    # stands behind them are parameters, of which each LightGBM has others.)
    new, old = (
        registry.file(run, "model.txt").partition(b"\nparameters:") for run in (retrain.run, SECOND)
    )
    assert new[:2] == old[:2] and old[1]
    assert registry.champion() == retrain.run
    assert registry.rollback("by hand") == SECOND
    after = {p: site.shown("ledger", "show", p, "--people")["people"] for p in PARTIES}
    for party in PARTIES:
        changes = [c["most_changes"] for c in after[party]["columns"]]
        assert changes == [c["most_changes"] for c in before[party]["columns"]]


def test_a_private_model_is_trained_again_and_charged_again(site: Site) -> None:
    retrain = site.other("d9", name="loans_private")
    retrain.all()
    registry = site.registry("loans_private")
    assert set(registry.versions()) == {PRIVATE, retrain.run}
    with state_of(site, "credit") as state:
        assert account_of(state.ledger.releases()).epsilon == 10
    assert site.shown("ledger", "show", "credit")["models"]["epsilon"] == 10


def trained_on(site: Site, run: str, party: str) -> int:
    """How many rows of a party were in a run's training."""
    with state_of(site, party) as state:
        lines = [line for line in state.ledger.releases() if line.run == run]
    # What says how many people a table has: keyed digests then, shares of everybody now.
    return next(line.rows for line in lines if line.kind in ("digests", "shares"))


@pytest.mark.parametrize(("party", "stage"), [("bank", "digest_ids"), ("credit", "open_rows")])
def test_a_run_that_0_1_0_began_does_not_go_on(site: Site, party: str, stage: str) -> None:
    """Common people are found in another way: the message says so, nothing is published twice."""
    before = site.other(FIRST).files("exchange")
    with pytest.raises(Rejected) as caught:
        site.other(FIRST).step(party, stage)
    assert caught.value.reason == "unsupported_version"
    assert "credit has to upgrade" in caught.value.problem
    assert "cannot continue across an upgrade: trigger a new one" in str(caught.value)
    assert site.other(FIRST).files("exchange") == before


def test_the_same_people_are_held_out_as_under_0_1_0(site: Site) -> None:
    """Common order and holdout follow from the key that the label holder keeps, as before."""
    retrain = site.other("4e1d")
    retrain.until("open_rows")
    retrain.step("credit", "open_rows")
    homes = {run: site.folder / "credit" / "home" / "loans" / run for run in (SECOND, retrain.run)}
    tables = [feather.read_table(home / "alignment.arrow") for home in homes.values()]
    assert tables[0].column("position").to_pylist() == tables[1].column("position").to_pylist()
    said = [json.loads((home / "alignment.json").read_bytes()) for home in homes.values()]
    assert said[0] == said[1]


def test_the_forgotten_stay_forgotten_and_more_can_be(site: Site) -> None:
    table = pl.read_parquet(site.folder / "bank" / "tables" / "train.parquet")
    assert {FORGOTTEN, *KNOWN} <= set(table["id"])
    told = site.opboost("forget", "bank", KNOWN[0])
    assert "bank forgot the person" in told
    assert "cell states were removed" in told
    site.opboost("forget", "shop", KNOWN[1])
    retrain = site.other("f0")
    retrain.all()
    assert trained_on(site, retrain.run, "bank") == table.height - 2
    assert trained_on(site, FIRST, "bank") == table.height
    shop = pl.read_parquet(site.folder / "shop" / "tables" / "train.parquet")
    assert trained_on(site, retrain.run, "shop") == shop.height - 1

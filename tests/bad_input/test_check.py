"""`opboost check` finds at home, all at once, what the first stages of a run would find."""

import polars as pl
import pytest

from opboost_ops.cli import check
from opboost_ops.errors import ConfigError, Fault
from tests.bad_input.faults import CANARY_NUMBER, CANARY_TEXT
from tests.bad_input.test_tables import first_rows
from tests.commands import printed, printed_json
from tests.federation import Workspace


def faults(workspace: Workspace) -> dict[str, Fault]:
    before = workspace.files("exchange")
    with pytest.raises(ConfigError) as caught:
        check.command(workspace.file)
    told = str(caught.value)
    assert CANARY_TEXT not in told and "48151623" not in told
    assert workspace.files("exchange") == before
    assert all(fault.suggestion for fault in caught.value.faults)
    return {fault.where: fault for fault in caught.value.faults}


def test_all_faults_of_all_tables_at_once(workspace: Workspace) -> None:
    def twice(table: pl.DataFrame) -> pl.DataFrame:
        ids = table.get_column("id").to_list()
        return table.with_columns(pl.Series("id", [ids[1], *ids[1:]]))

    workspace.edit_table("bank", first_rows("balance", None, rows=7))
    workspace.edit_table("bank", first_rows("income", CANARY_NUMBER, rows=360))
    workspace.edit_table("bank", lambda t: t.drop("debt_ratio"))
    workspace.edit_table("shop", twice)
    workspace.edit_table("shop", first_rows("payment", CANARY_TEXT, rows=3))
    workspace.edit_table("credit", lambda t: t.with_columns(age=pl.lit(CANARY_TEXT)))
    workspace.edit_table("credit", first_rows("default", None))
    scoring = workspace.scoring()
    scoring.edit_table("bank", first_rows("balance", None, rows=2))
    (workspace.folder / "shop" / "tables" / "score.parquet").unlink()
    found = faults(workspace)
    rows = pl.read_parquet(workspace.table_path("bank")).height
    balance = found["bank: train table, balance"]
    assert balance.problem.startswith(f"7 of {rows} rows") and "forbid" in balance.problem
    assert "parties.bank.features.balance" in balance.suggestion
    income = found["bank: train table, income"]
    assert f"360 of {rows} rows ({360 / rows:.1%})" in income.problem
    assert "max_clipped_share" in income.problem and "bounds" in income.suggestion
    assert "has no column debt_ratio" in found["bank: train table, debt_ratio"].problem
    assert "2 of" in found["shop: train table, id"].problem
    assert "`rest`" in found["shop: train table, payment"].suggestion
    assert "declared numeric" in found["credit: train table, age"].problem
    assert "no label" in found["credit: train table, default"].problem
    assert "2 of" in found["bank: score table, balance"].problem
    assert "missing" in found["shop: score table"].problem
    assert len(found) == 9


def test_a_lost_secret_and_a_broken_file_are_faults_of_their_parties(workspace: Workspace) -> None:
    """A new one would open no pins: the advice is a backup."""
    (workspace.folder / "bank" / "keys" / "noise.secret").unlink()
    (workspace.folder / "shop" / "policy.yaml").write_text("version: [")
    told = faults(workspace)
    assert "backup" in told["bank/site.yaml:secret"].suggestion
    assert "policy.yaml: is not valid YAML at line 2" in told["shop"].problem


def test_what_scoring_needs(workspace: Workspace) -> None:
    """Mode local without others' columns failed in `evaluate`, after everything was charged."""

    def local(data: dict) -> None:
        data["scoring"] = {"mode": "desensitised", "evaluate": ["local"]}

    workspace.edit_yaml("federation.yaml", local)
    for party in ("bank", "shop"):
        workspace.declare(f"{party}/policy.yaml", scoring=["local", "desensitised"])
    workspace.edit_yaml(
        "shop/site.yaml", lambda site: site["tables"]["credit_scoring"].pop("score")
    )
    found = faults(workspace)
    features = {
        f"{party}.{name}"
        for party in ("bank", "shop")
        for name in workspace.declared.parties[party].features
    }
    assert {f"credit: train table, {name}" for name in features} <= set(found)
    assert all("scoring.mode local" in found[f"credit: train table, {n}"].problem for n in features)
    assert "shop/site.yaml:tables.credit_scoring.score" in found
    assert len(found) == len(features) + 1


def test_nobody_is_common(workspace: Workspace) -> None:
    workspace.edit_table("bank", lambda t: t.with_columns(id=pl.lit("X") + pl.col("id")))
    found = faults(workspace)
    assert set(found) == {"train tables"}
    assert "in the tables of all parties" in found["train tables"].problem


def test_a_party_alone_checks_its_own_site(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two companies none has the other's folder."""
    monkeypatch.delenv("OPBOOST_SITE_CREDIT")
    monkeypatch.delenv("OPBOOST_SITE_SHOP")
    for party in ("credit", "shop"):
        (workspace.folder / party).rename(workspace.folder / f"not-{party}")
    told = printed("check", workspace.folder)
    assert "OPBOOST_SITE_CREDIT" in told and "OPBOOST_SITE_BANK" not in told
    assert printed_json("check", workspace.folder)["elsewhere"] == ["credit", "shop"]
    workspace.edit_table("bank", first_rows("balance", None, rows=7))
    assert set(faults(workspace)) == {"bank: train table, balance"}
    monkeypatch.delenv("OPBOOST_SITE_BANK")
    (workspace.folder / "bank").rename(workspace.folder / "not-bank")
    assert "No site.yaml is known" in printed("check", workspace.folder, fails=True)

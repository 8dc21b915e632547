"""A run on columns as people have them: dates, decimals, booleans, blanks, quotes, rare words."""

from datetime import date, timedelta

import polars as pl
import pytest

from opboost_ops.cli import check
from opboost_ops.learning.registry.registry import Registry
from tests.federation import Workspace

#: What the shop writes for the four ways of paying.
RAW = ('credit, "gold"', " on account ", "SEPA", "shells")


@pytest.mark.slow
def test_a_run_on_tables_as_they_are(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    declared = workspace.declared.parties["shop"].features["payment"].categories
    assert declared is not None

    def of_the_bank(table: pl.DataFrame) -> pl.DataFrame:
        days = pl.col("overdrafts") * timedelta(days=400)
        return table.with_columns(
            overdrafts=pl.lit(date(1990, 1, 1)) + days,
            debt_ratio=pl.col("debt_ratio").cast(pl.Decimal(12, 4)),
        ).rename({"balance": " balance "})

    def of_the_shop(table: pl.DataFrame) -> pl.DataFrame:
        return table.with_columns(
            pl.col("payment").replace_strict(dict(zip(declared, RAW, strict=True))),
            returns_share=pl.col("returns_share") > 0.05,
        )

    def declare(data: dict) -> None:
        bank, shop = (data["parties"][party]["features"] for party in ("bank", "shop"))
        bank["overdrafts"] |= {
            "unit": "days",
            "bounds": [date(1990, 1, 1), date(2002, 1, 1)],
        }
        shop["returns_share"] |= {"type": "boolean"}
        shop["returns_share"].pop("bounds")
        shop["returns_share"]["missing"]["fill"] = 0
        shop["payment"] |= {
            "categories": ['credit, "gold"', "on account", "debit", "cheque", "other"],
            "mapping": {"SEPA": "debit"},
            "rest": "other",
        }

    for step in (workspace, workspace.scoring()):
        step.edit_table("bank", of_the_bank)
        step.edit_table("shop", of_the_shop)
    workspace.edit_yaml("federation.yaml", declare)
    check.command(workspace.file)
    table = pl.read_parquet(workspace.table_path("shop"))
    rare = table.filter(pl.col("payment") == "shells").height
    told = " ".join(capsys.readouterr().out.split())
    assert f"shop.payment: {rare} of {table.height} rows count as other, its rest; " in told
    assert "no row has cheque." in told
    workspace.all()
    files = Registry(workspace.folder / "credit" / "models", "credit_scoring").files(workspace.run)
    assert b"shop.payment=credit%2C%20%22gold%22" in files["model.txt"]
    scored = workspace.scoring().all()
    assert scored["credit.write_scores"]["rows"] > 0

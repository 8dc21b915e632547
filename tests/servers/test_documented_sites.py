"""`init`, `check`, `agree` and `run` with every documented source, store and ledger."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import sqlalchemy as sa
import yaml

from tests.integration.cli.conftest import Opboost
from tests.integration.cli.conftest import opboost as opboost
from tests.servers.conftest import created
from tests.unit.exchange.conftest import s3, s3_server  # noqa: F401

pytestmark = pytest.mark.slow

#: Each source, store and ledger at least once.
COMBINATIONS = (
    ("parquet", "folder", "sqlite"),
    ("csv", "s3", "postgres"),
    ("postgres", "folder", "postgres"),
)


def tables() -> dict[str, pl.DataFrame]:
    draws = np.random.default_rng(1)
    income, debt = draws.normal(3000, 500, 400).clip(500, 6000), draws.normal(0, 1, 400)
    default = (income / 1000 + debt < 2.5).astype(int)
    return {
        "lender": pl.DataFrame({"customer_id": range(400), "debt": debt, "default": default}),
        "bank": pl.DataFrame({"customer_id": range(400), "income": income.round(2)}),
    }


@pytest.mark.parametrize(("source", "store", "ledger"), COMBINATIONS)
def test_from_init_to_a_model(
    source: str,
    store: str,
    ledger: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    opboost: Opboost,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "credit"
    exchange = "../exchange"
    if store == "s3":
        monkeypatch.setenv("EXCHANGE", request.getfixturevalue("s3"))
        exchange = "env:EXCHANGE"
    for party, table in tables().items():
        more = ["--label", "default"] if party == "lender" else []
        at = str(tmp_path / f"{party}.{source}")
        if source == "parquet":
            table.write_parquet(at)
        elif source == "csv":
            table.write_csv(at)
        else:
            # A URL of each party's own, which the other's process must not need.
            url = new_database(request)
            engine = sa.create_engine(url)
            table.write_database("people", engine, engine="sqlalchemy")
            engine.dispose()
            monkeypatch.setenv(f"{party.upper()}_PEOPLE", url.replace("+psycopg", ""))
            at = f"env:{party.upper()}_PEOPLE"
            more += ["--query", "SELECT * FROM people"]
        named = ["--table", at, "--id", "customer_id", "--name", "credit", "--store", exchange]
        assert opboost("init", folder / party, "--party", party, *named, *more).code == 0
        edit(folder / party / "policy.yaml", approve="never")
        if ledger == "postgres":
            monkeypatch.setenv(f"{party.upper()}_LEDGER", new_database(request))
            edit(folder / party / "site.yaml", ledger=f"env:{party.upper()}_LEDGER")
    bounds = folder / "bank" / "bounds.csv"
    blank = pl.read_csv(bounds, infer_schema=False)
    blank.with_columns(lower=pl.lit("500"), upper=pl.lit("6000")).write_csv(bounds)
    assert opboost("bounds", folder / "bank").code == 0
    offers = [folder / party / f"{party}-offer.yaml" for party in ("lender", "bank")]
    assert opboost("federate", *offers, "--out", folder / "federation.yaml").code == 0
    for party in ("bank", "lender"):
        shown = opboost("agree", folder / party, folder, "--json").output
        digest = yaml.safe_load(shown)["digest"]
        assert opboost("agree", folder / party, folder, "--yes", digest).code == 0
    assert "income" in opboost("check", folder).output
    assert opboost("run", folder, "--trees", "3").code == 0
    assert list((folder / "lender" / "models").glob("credit/*/model.txt"))
    assert "income" in opboost("ledger", "show", folder / "bank").output
    assert (folder / "bank" / "ledger.sqlite").exists() == (ledger == "sqlite")
    assert (folder / "exchange").exists() == (store == "folder")


def new_database(request: pytest.FixtureRequest) -> str:
    return created(request.getfixturevalue("postgres_server"))


def edit(path: Path, **changes: object) -> None:
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **changes}))

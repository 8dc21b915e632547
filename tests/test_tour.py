"""The first test to read: two tables become a model, and the model scores new people.

A shop knows who fell into arrears; a bank knows incomes and balances of partly the same people.
They train a model together. The bank's columns are randomised before they leave the bank.
"""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

from opboost_ops import api
from opboost_ops.errors import ApprovalError


def people(first: int, count: int) -> pl.DataFrame:
    """People who fall into arrears the more often the less they earn and the more they owe."""
    rng = np.random.default_rng(first)
    income, debt, orders = rng.normal(3000, 800, count), rng.random(count), rng.poisson(5, count)
    risk = debt - (income - 3000) / 2000 + rng.normal(0, 0.2, count)
    return pl.DataFrame(
        {
            "customer": [f"c{i:05d}" for i in range(first, first + count)],
            "orders": orders,
            "arrears": np.where(risk > 0.5, "yes", "no"),
            "income": income.round(),
            "debt": debt.round(3),
        }
    )


@pytest.mark.slow
def test_from_two_tables_to_scores(tmp_path: Path) -> None:
    # 1. Each party has a table. The shop's people 0 to 999, the bank's 200 to 1,199.
    everybody = people(0, 1200)
    shop, bank = tmp_path / "shop.parquet", tmp_path / "bank.parquet"
    everybody[:1000].select("customer", "orders", "arrears").write_parquet(shop)
    everybody[200:].select("customer", "income", "debt").write_parquet(bank)

    # 2. Each party makes its keys, its site, its policy and an offer, which is public. The shop has
    #    the label, so it keeps the model.
    folder, tables = tmp_path / "credit", {"shop": shop, "bank": bank}
    home = {party: folder / party for party in tables}
    api.init(home["shop"], "shop", shop, "customer", label="arrears", positive="yes", name="credit")
    api.init(home["bank"], "bank", bank, "customer", name="credit", epsilon=2)

    # 3. Declare the bounds of the bank's columns. They are public, so nobody reads them off data.
    blank = pl.read_csv(home["bank"] / "bounds.csv", infer_schema=False)
    bounds = {"income": ("0", "8000"), "debt": ("0", "1")}
    lower, upper = zip(*(bounds[name] for name in blank["feature"]), strict=True)
    blank.with_columns(lower=pl.Series(lower), upper=pl.Series(upper)).write_csv(
        home["bank"] / "bounds.csv"
    )
    api.bounds(home["bank"])

    #    The offers make the federation file.
    offers = [home[party] / f"{party}-offer.yaml" for party in tables]
    api.federate(offers, folder / "federation.yaml")

    # 4. Look at what will leave the bank, and what it costs. Then each party agrees.
    checked = api.check(folder)
    assert checked.faults == ()
    assert set(checked.leaves["column"]) == {"income", "debt"}
    for party in tables:
        consent = api.agree(folder / party, folder)
        assert api.agree(folder / party, folder, digest=consent.digest).number == 1

    # 5. Train. The bank's policy lets a person approve the first release, so the call says why.
    #    The held-out people are scored better than by the shop's own column.
    with pytest.raises(ApprovalError, match="bank"):
        api.run(folder, trees=20)
    trained = api.run(folder, because="a first trial", trees=20)
    metrics = {line["model"]: line["auc"] for line in trained.metrics.iter_rows(named=True)}
    assert metrics["federated_desensitised"] > metrics["label_holder_alone"] + 0.05
    assert trained.champion

    # 6. The bank's ledger says what it has released: both columns, once.
    assert api.ledger(folder / "bank").columns["releases"].list.len().to_list() == [1, 1]

    # 7. Score new people.
    new = people(5000, 200)
    new.select("customer", "orders").write_parquet(tmp_path / "shop-new.parquet")
    new.select("customer", "income", "debt").write_parquet(tmp_path / "bank-new.parquet")
    for party in tables:
        site = yaml.safe_load((folder / party / "site.yaml").read_text())
        site["tables"]["credit"]["score"] = str(tmp_path / f"{party}-new.parquet")
        (folder / party / "site.yaml").write_text(yaml.safe_dump(site))
    scored = api.score(folder)
    assert scored.version == trained.version
    known = scored.scores.join(new, on="customer")
    risk = known.group_by("arrears").agg(pl.col("score").mean())
    means = dict(risk.iter_rows())
    assert means["yes"] > means["no"]

"""Experiments in their quick form, on tables that are made up: what comes out is plausible."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.papers import accuracy, figures
from tests.unit.benchmarks.conftest import Quick
from tests.unit.benchmarks.test_experiment import made_up


def test_accuracy(quick: Quick, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "load", lambda _: made_up(2000))
    accuracy.prepared.cache_clear()
    found, told = quick("accuracy", "--booster", "lightgbm", "xgboost")
    for booster in ("lightgbm", "xgboost"):
        of = {(r["dataset"], r["scale"], accuracy.name_of(r)): r["ratio"]
              for r in found["rows"] if r["trainer"] == booster}  # fmt: skip
        assert of["powerplant", "linear", "no protection"] == 1
        alone = of["pendigits", "linear", "label holder alone"]
        assert alone < of["pendigits", "linear", "Global-map"] <= 1.02
        assert of["pendigits", "quantile", "Local-map, theta 2"] > alone
        assert ("powerplant", "quantile", "Global-map") not in of
    assert "| pendigits | quantile | Global-map | 1.28 | 0.938 |" in told
    _, curves = quick("accuracy-curves")
    assert "figures/evaluation-accuracy-pendigits.svg" in curves
    assert (tmp_path / "evaluation-accuracy-pendigits.svg").stat().st_size > 5_000
    accuracy.prepared.cache_clear()


def test_table5_has_every_method_and_distance(quick: Quick) -> None:
    found, told = quick("table5")
    methods = [row["method"] for row in found["rows"]]
    assert methods[:3] == ["GRR(epsilon)", "GRR(theta epsilon)", "Local-map"]
    assert methods[3] == "Adj-map, alpha 0.2"
    assert methods[-1] == "Adj-map, alpha 5"
    for row in found["rows"]:
        assert [cell["dist"] for cell in row["cells"]] == list(range(10))
        assert all(0 <= cell["exact"] <= 1 for cell in row["cells"])
    # Counting half of "same partition" promises more than holds.
    adj = {row["method"]: row["cells"] for row in found["rows"]}
    assert all(cells[0]["formula"] > cells[0]["exact"] for cells in adj.values())
    assert f"{adj['Adj-map, alpha 5'][0]['exact']:.4f}" in told


@pytest.mark.parametrize("draw", [figures._laws, figures._loss])
def test_the_documents_figures_are_those_of_the_code(draw: Any, tmp_path: Path) -> None:
    committed = Path(__file__).parents[3] / "docs" / "figures"
    name = {
        "_laws": "output-laws.svg",
        "_loss": "loss-curves.svg",
    }[draw.__name__]
    assert draw(tmp_path / name).read_bytes() == (committed / name).read_bytes()


@pytest.mark.slow
def test_federation(quick: Quick, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.papers import federation
    from tests.federation import small_credit

    monkeypatch.setattr(federation, "load", lambda _: small_credit())
    found, told = quick("federation")
    (row,) = found["rows"]
    assert row["centralised"] > row["label_holder_alone"] - 0.1
    assert 0.4 < row["federated_desensitised"] < 1
    assert f"| credit, 1.28 | AUC | {row['centralised']:.4f} | {row['federated']:.4f} |" in told

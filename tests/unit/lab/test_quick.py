"""The commands in their quick form, on a table that is made up: what comes out is plausible."""

import json
from pathlib import Path
from typing import Any

import pytest

from opboost_ops.lab import accuracy, accuracy_section, improvements, improvements_section
from tests.unit.cli.conftest import Opboost, opboost  # noqa: F401
from tests.unit.lab.test_experiment import made_up


def quick(
    opboost: Opboost,  # noqa: F811
    folder: Path,
    name: str,
    *more: str,
) -> Any:
    path = folder / f"{name}.json"
    opboost("evaluate", name, "--quick", *more, "--work", folder, "--summary", path)
    return json.loads(path.read_text())


def test_accuracy(
    opboost: Opboost,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(accuracy, "load", lambda _: made_up(2000))
    found = quick(opboost, tmp_path, "accuracy", "--booster", "both")
    assert found["command"] == "opboost evaluate accuracy --seeds 1 --booster both --quick"
    for booster in ("lightgbm", "xgboost"):
        of = {(r["dataset"], r["scale"], accuracy.name_of(r)): r["ratio"]
              for r in found["rows"] if r["trainer"] == booster}  # fmt: skip
        assert of["powerplant", "linear", "no protection"] == 1
        alone = of["pendigits", "linear", "label holder alone"]
        assert alone < of["pendigits", "linear", "Global-map"] <= 1.02
        assert of["pendigits", "quantile", "Local-map, theta 2"] > alone
        assert ("powerplant", "quantile", "Global-map") not in of
    told = accuracy_section.section(found, tmp_path)
    assert "| pendigits | quantile | Global-map | 1.28 | 0.938 |" in told
    curves = accuracy_section.curves_section(
        {**found, "rows": [r for r in found["rows"] if r["trainer"] == "lightgbm"]}, tmp_path
    )
    assert "figures/evaluation-accuracy-pendigits.svg" in curves
    assert (tmp_path / "evaluation-accuracy-pendigits.svg").stat().st_size > 5_000


def test_improvements(
    opboost: Opboost,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(improvements, "load", lambda _: made_up(3000))
    monkeypatch.setattr(improvements, "LOWER_IS_BETTER", ())
    found = quick(opboost, tmp_path, "improvements")
    by = {(row["variant"], row["scale"], row["method"]): row for row in found["rows"]}
    assert len(by) == 2 * 2 * 2
    line = by["redrawn", "linear", "global_map"]
    assert line["gain"] == pytest.approx(line["value"] - line["plain"], abs=1e-5)
    assert line["better"] == (line["gain"] > 0)
    assert f"| {line['plain']:.4f} | {line['value']:.4f} |" in improvements_section.section(
        found, tmp_path
    )


def test_the_noise_to_signal_ratio_falls_with_epsilon() -> None:
    def ratio(epsilon: float) -> float:
        cell = {"method": "global_map", "epsilon": epsilon, "theta": 0, "alpha": 0.0}
        return improvements.noise_to_signal(accuracy.mechanism_of(cell).channel(accuracy.DOMAIN))

    assert ratio(0.08) > 10 * ratio(0.5) > 100 * ratio(5) > 0


@pytest.mark.slow
def test_federation(
    opboost: Opboost,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from opboost_ops.lab import federation
    from tests.federation import small_credit

    monkeypatch.setattr(federation, "load", lambda _: small_credit())
    found = quick(opboost, tmp_path, "federation")
    (row,) = found["rows"]
    assert row["centralised"] > row["label_holder_alone"] - 0.1
    assert 0.4 < row["federated_desensitised"] < 1
    told = federation.section(found, tmp_path)
    assert f"| credit, 1.28 | AUC | {row['centralised']:.4f} | {row['federated']:.4f} |" in told

"""A table split among imagined parties: what is shown is what a federation would give."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from opboost_ops.cli import app
from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError
from opboost_ops.extras.datasets.split_table import split_table
from opboost_ops.extras.lab.simulation import (
    ALONE,
    DRAWS,
    Simulation,
    answer,
    over_draws,
    simulate,
    simulation_report,
)
from opboost_ops.learning.boosters.backend import Parameters
from opboost_ops.learning.metrics import Interval

DOMAIN = Domain(1, 10)
FEW = Parameters("binary", 2, 20, 0.2, 3, 0, 1)


def table(rows: int = 3000, gain: float = 2.0) -> pl.DataFrame:
    """Another party's column says much of the label; its other one, and a category, a little."""
    rng = np.random.RandomState(5)
    x, z, noise = rng.normal(size=rows), rng.normal(size=rows), rng.normal(size=rows)
    kind = rng.randint(0, 3, rows)
    raw = x + gain * z + 0.5 * (kind == 1) + noise
    return pl.DataFrame(
        {
            "person": np.arange(rows),
            "x": x,
            "z": pl.Series(np.where(rng.random_sample(rows) < 0.1, np.nan, z * 100)).fill_nan(None),
            "kind": [("a", "b", None)[k] for k in kind],
            "free": [f"note {i}" for i in range(rows)],
            "flag": rng.random_sample(rows) < 0.5,
            "empty": pl.Series([None] * rows, dtype=pl.Float64),
            "one": ["same"] * rows,
            "y": np.where(raw > 0, "good", "bad"),
        },
        strict=False,
    )


def made(gain: float = 2.0) -> Simulation:
    imagined = split_table(table(gain=gain), "y", {"bank": ["z", "kind"], "shop": ["flag"]}, DOMAIN)
    return simulate(imagined, DOMAIN, (0.02, 0.64, 5.12), FEW)


def test_what_helps_pays_and_what_does_not_does_not() -> None:
    found = made()
    assert found.metric == "auc" and found.rows == (2400, 600)
    assert found.centralised.value > found.alone.value + 0.1
    by = {(p.mode, p.epsilon): p for p in found.points}
    for mode in ("desensitised", "routed"):
        values = [by[mode, epsilon].metric.value for epsilon in (0.02, 0.64, 5.12)]
        assert values == sorted(values) and values[-1] < found.centralised.value + 0.02
        assert by[mode, 0.02].gain.low <= 0
        assert found.pays_from(mode) is not None
    assert by["routed", 0.64].metric.value > by["desensitised", 0.64].metric.value
    useless = made(gain=0.0)
    assert all(useless.pays_from(mode) is None for mode in ("desensitised", "routed"))
    assert not useless.gain_shown


def test_a_wide_interval_is_no_proof_that_pooling_gains_nothing() -> None:
    found = made(gain=0.0)
    wide = replace(found, pooled_gain=Interval(0.03, -0.01, 0.07))
    assert answer(wide)[0].startswith("Pooling shows no gain in this sample")
    assert "would not pay" not in " ".join(answer(wide))
    narrow = replace(found, pooled_gain=Interval(0.0, -0.001, 0.001))
    assert answer(narrow)[0].startswith("No gain is possible")


def test_an_interval_covers_one_more_draw() -> None:
    """A true gain of zero is not shown, however the draws fall: in at most 5 % of simulations."""
    random = np.random.default_rng(4)
    shown = 0
    for _ in range(2_000):
        draws = random.normal(0, 0.01, DRAWS)
        found = over_draws([Interval(value, value - 1e-6, value + 1e-6) for value in draws])
        one_more = random.normal(0, 0.01)
        shown += not found.low <= one_more <= found.high
    assert 0.03 < shown / 2_000 < 0.07


def test_the_same_seed_says_the_same() -> None:
    assert made() == made()


def test_columns_of_no_use_are_left_out_and_named() -> None:
    found = made()
    assert found.left_out == {
        "person": "it numbers the rows",
        "free": "it is an ID or free text",
        "empty": "it is empty",
        "one": "it has a single value",
    }


def test_it_is_what_a_federation_gives_without_noise() -> None:
    """At an epsilon without any noise the release is the domain values: modes are one."""
    imagined = split_table(table(), "y", {"bank": ["z"]}, DOMAIN)
    found = simulate(imagined, DOMAIN, (200.0,), FEW)
    one, other = found.points
    assert one.metric == other.metric and one.gain == other.gain


def test_regression_classes_and_no_own_columns() -> None:
    rows = table(800).with_columns(number=pl.col("x") * 2 + pl.col("z").fill_null(0) / 50)
    parts = {"bank": ["z"], "shop": ["x"]}
    number = split_table(rows.select("x", "z", "number"), "number", parts, DOMAIN)
    found = simulate(number, DOMAIN, (5.12,), replace(FEW, task="regression", classes=0))
    assert found.metric == "r2" and found.alone.value == pytest.approx(0.0, abs=0.02)
    assert found.points[0].metric.value > 0.5
    several = split_table(rows.drop("y"), "kind", parts, DOMAIN)
    assert several.task == "binary" and len(several.label) < rows.height


@pytest.mark.parametrize(
    ("label", "split", "words"),
    [
        ("w", {"bank": ["z"]}, "no column w"),
        (
            "y",
            {"bank": ["z", "q"], "shop": ["z", "y"]},
            "no column q; z is assigned twice; y is the",
        ),
        ("y", {"bank": []}, "bank gets no column"),
        ("y", {"bank": ["free", "z"]}, "free: it is an ID or free text"),
        ("one", {"bank": ["z"]}, "single value"),
    ],
)
def test_faults(label: str, split: dict[str, list[str]], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        split_table(table(200), label, split, DOMAIN)


def test_the_command(tmp_path: Path) -> None:
    path, picture = tmp_path / "own.csv", tmp_path / "out.html"
    table(1500).write_csv(path)
    command = ["simulate", str(path), "--label", "y", "--split", "bank=z,kind", "--json"]
    result = CliRunner().invoke(app, [*command, "--out", str(picture)])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout.splitlines()[-1])
    assert told["charged"] is False and "not charged" in told["note"]
    assert set(told["pays_from"]) == {"desensitised", "routed"}
    assert told[ALONE]["low"] < told[ALONE]["value"] < told[ALONE]["high"]
    page = picture.read_text()
    assert page.count("<svg") >= 1 and "http" not in page.replace("http://www.w3.org", "")
    assert "not charged" in page and 'class="band k0"' in page


def test_the_page_shows_alone_and_centralised_beside_the_modes() -> None:
    page = simulation_report("own: would it pay?", made())
    for name in ("desensitised</li>", "routed</li>", "alone, 0.", "centralised, 0."):
        assert f"</svg>{name}" in page

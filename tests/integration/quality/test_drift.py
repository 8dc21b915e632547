"""Drift: what counts as a move, what is chance, and that it is told at home only."""

import json
import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pytest

from opboost_ops.config.feature import Feature, Fill
from opboost_ops.domain import Domain
from opboost_ops.pipeline.party.inbox import Run
from opboost_ops.pipeline.runner.runner import run_stage
from opboost_ops.quality.drift import Frames, Profile, compare, counted, profile, stability
from opboost_ops.quality.validation import Report
from tests.federation import Workspace
from tests.party_state import state_of

DOMAIN = Domain(1, 10)
UUID = "00000000-0000-4000-8000-000000000001"
UNIT = Feature(uuid=UUID, bounds=(0, 1))


def compared(
    reference: Profile, table: pl.DataFrame | Frames, features: dict[str, Feature]
) -> Report:
    return compare(reference, counted(table, features, reference.features), features, 0.25)


def index(then: pl.Series, now: pl.Series, feature: Feature = UNIT) -> tuple[float, bool]:
    features = {"x": feature}
    reference = profile(pl.DataFrame({"x": then}), features, DOMAIN)
    report = compared(reference, pl.DataFrame({"x": now}), features)
    (row,) = report.profile
    assert row["column"] == "x"
    return row["index"], not report.findings


def test_the_index_is_that_of_its_definition() -> None:
    then, now = pl.Series([0.05] * 60 + [0.95] * 40), pl.Series([0.05] * 20 + [0.95] * 80)
    # Ten cells and one for missing values; each gets half a row.
    p, q = ([(c + 0.5) / 105.5 for c in counts] for counts in ((60, 40), (20, 80)))
    expected = sum((b - a) * math.log(b / a) for a, b in zip(p, q, strict=True))
    assert index(then, now) == (pytest.approx(expected), False)
    assert index(then, then) == (0.0, True)


def test_chance_is_no_drift_and_a_move_is() -> None:
    moved = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        then = profile(pl.DataFrame({"x": rng.random(400)}), {"x": UNIT}, DOMAIN).features
        chance, real = (
            stability(
                then["x"].counts,
                counted(pl.DataFrame({"x": now}), {"x": UNIT}, then).features["x"].counts,
            )
            for now in (rng.random(30), rng.beta(6, 1, 300))
        )
        moved += chance[0] > max(0.25, chance[1])
        assert real[0] > max(0.25, real[1])
    assert moved <= 3


@pytest.mark.parametrize(
    ("feature", "then", "now"),
    [
        (Feature(uuid=UUID), [float(i) for i in range(500)], [float(i) for i in range(300, 600)]),
        (Feature(uuid=UUID, type="nominal"), ["a", "b"] * 200, ["b"] * 400),
        (Feature(uuid=UUID, type="nominal"), ["a", "b"] * 200, ["a", "new"] * 200),
        (UNIT, [0.5] * 400, [0.5] * 250 + [None] * 150),
        (UNIT, [0.5] * 400, [0.5] * 250 + [9.0] * 150),
    ],
)
def test_every_kind_of_feature_and_missing_and_clipped_values(
    feature: Feature, then: list[Any], now: list[Any]
) -> None:
    assert index(pl.Series(then), pl.Series(then), feature)[1]
    assert not index(pl.Series(then), pl.Series(now), feature)[1]


def test_more_columns_without_bounds_are_not_more_passes_over_the_table() -> None:
    random = np.random.default_rng(4)
    table = pl.DataFrame({f"x{i}": random.normal(size=200) for i in range(30)})
    features = {name: Feature(uuid=UUID) for name in table.columns}
    passes = []

    def read(columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        passes.append(columns)
        return iter([table[:90].select(columns), table[90:].select(columns)])

    together = profile(read, features, DOMAIN)
    assert len(passes) == 2
    for name, feature in features.items():
        alone = profile(table.select(name), {name: feature}, DOMAIN)
        assert together.features[name] == alone.features[name]


def test_many_cells_are_joined() -> None:
    rng = np.random.default_rng(0)
    wide = profile(pl.DataFrame({"x": rng.random(5000)}), {"x": UNIT}, Domain(1, 1024))
    assert len(wide.features["x"].edges) <= 20


def drifted(workspace: Workspace) -> None:
    """The bank's new customers are rich."""
    workspace.let_join("bank", pl.col("balance") * 30)
    workspace.edit_yaml(
        "bank/policy.yaml", lambda data: data.setdefault("checks", {}).update(max_clipped_share=1)
    )


def test_drift_stays_at_home(workspace: Workspace) -> None:
    drifted(workspace)
    workspace.until("open_rows")
    home = workspace.home("bank")
    report = json.loads((home / "quality" / "drift.json").read_text())
    found = [(each.column, each.severity) for each in Report(report).findings]
    assert found == [("balance", "warning")]
    with state_of(workspace, "bank") as state:
        told = [r for r in state.ledger.entries() if r.kind == "check_drift"]
    noticed: list[str] = []
    run = Run("credit_scoring", workspace.run, "credit")
    summary = run_stage("bank", "check_drift", run, notice=noticed.append)
    run_stage("shop", "check_drift", run, notice=noticed.append)
    assert noticed == ["drift"]
    assert "drift" not in summary
    assert not told


def test_drift_is_that_of_the_whole() -> None:
    features = {
        "wide": Feature(uuid=UUID, bounds=(0, 900)),
        "own": Feature(uuid=UUID),
        "grade": Feature(uuid=UUID, type="ordinal", categories=("a", "b"), missing=Fill(fill="a")),
        "town": Feature(uuid=UUID, type="nominal"),
    }
    then = pl.DataFrame(
        {
            "wide": [float(i * i % 997) for i in range(1000)],
            "own": [None if i % 9 == 0 else i * 7 % 113 for i in range(1000)],
            "grade": ["ab c"[i % 4] for i in range(1000)],
            "town": [None] * 400 + [f"t{i % 5}" for i in range(600)],
        }
    )

    def read(columns: Sequence[str], rows: int = 1000, block: int = 130) -> Iterator[pl.DataFrame]:
        return then.head(rows).select(columns).iter_slices(block)

    few = partial(read, rows=300, block=7)
    for domain in (Domain(1, 10), Domain(-3, 700)):
        whole = profile(then, features, domain)
        assert profile(read, features, domain) == whole
        report = compared(whole, then.head(300), features)
        blocks = compared(whole, few, features)
        assert report.profile == blocks.profile
    # The quantiles are numpy's, as they were when the table was whole.
    encoded = features["wide"].domain_map(domain).encode(then["wide"].to_numpy())
    steps = np.unique(np.quantile(encoded, np.arange(1, 20) / 20, method="lower")) + 1
    mapping = features["wide"].domain_map(domain)
    expected = np.unique([mapping.boundary(int(s)) for s in steps if s <= domain.upper])
    assert Profile.model_validate(whole).features["wide"].edges == tuple(expected.tolist())

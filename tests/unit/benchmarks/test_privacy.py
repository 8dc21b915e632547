"""The trade-off of attacks and accuracy, and mechanisms at one measured loss."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.papers import accuracy, privacy
from tests.unit.benchmarks.conftest import Quick
from tests.unit.benchmarks.test_experiment import made_up


def test_attackers_gain_with_epsilon_and_so_does_accuracy(
    quick: Quick, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accuracy, "load", lambda _: made_up(1000))
    monkeypatch.setattr(privacy, "DRAWS", 4)
    monkeypatch.setattr(privacy, "_LONG", ())
    accuracy.prepared.cache_clear()
    found, told = quick("privacy", "--dataset", "adult")
    accuracy.prepared.cache_clear()
    lines = {(accuracy.name_of(line), line["epsilon"]): line for line in found["rows"]}
    raw, alone = lines["no protection", 0], lines["label holder alone", 0]
    assert (raw["ratio"], raw["guess"]) == (1, None)
    assert alone["guess"] == alone["baseline"] > 0.1
    for name in ("Global-map", "Adj-map, theta 4, alpha 2", "generalised response"):
        weak, strong = lines[name, 0.08], lines[name, 1.28]
        assert strong["guess"] > weak["guess"]
        assert strong["ratio"] > alone["ratio"]
        assert strong["averaged"] > strong["guess"]
    local = lines["Local-map, theta 2", 1.28]
    assert local["loss_one"] is local["loss_whole"] is None
    assert local["guess"] > lines["Global-map", 1.28]["guess"]
    assert all(not any("Local" in name for name in e["ratios"]) for e in found["equal_loss"])
    assert f"| Global-map | {lines['Global-map', 0.08]['loss_one']:.3f} |" in told
    pictures = {path.name for path in tmp_path.glob("*.svg")}
    assert pictures == {"evaluation-privacy.svg", "evaluation-privacy-equal-loss.svg"}
    assert all(f"figures/{name}" in told for name in pictures)


def test_at_equal_loss_the_ratio_lies_between_those_that_were_measured() -> None:
    def line(method: str, loss: float | None, ratio: float) -> dict[str, Any]:
        named = {"dataset": "d", "method": method, "theta": 0, "alpha": 0.0}
        return {**named, "loss_one": loss, "ratio": ratio, "ratio_sd": ratio / 10}

    lines = [
        line("global_map", 0.1, 0.2),
        line("global_map", 10.0, 0.8),
        line("piecewise", 1.0, 0.4),
        line("piecewise", 2.0, 0.9),
        line("local_map", None, 1.0),
    ]
    # Beyond what was measured there is nothing: neither at 0.05 nor at 20.
    middle, high = privacy.equal_loss(lines, "loss_one", (0.05, 1.0, 2.0, 20.0))
    assert middle["ratios"] == {"Global-map": 0.5, "Piecewise": 0.4}
    assert (middle["best"], middle["spread"]) == ("Global-map", 0.08)
    assert high["best"] == "Piecewise"

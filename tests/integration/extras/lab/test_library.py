"""Planning, attacks and models through the library, as a notebook uses them."""

from pathlib import Path

import pytest

from opboost_ops import api
from opboost_ops.errors import ConfigError
from opboost_ops.extras.lab.advice import compare_scales
from opboost_ops.privacy.loss import loss_curve
from tests.federation import Workspace


def test_mechanisms_are_ranked_under_caps(trained_once: Workspace, tmp_path: Path) -> None:
    ranking = api.plan(trained_once.folder, "bank", max_loss_1=0.5, out=tmp_path)
    features = trained_once.declared.parties["bank"].features
    assert set(ranking.mechanisms) == {n for n, f in features.items() if f.type != "nominal"}
    for pairs in ranking.candidates.values():
        scores = [score for score, _ in pairs]
        assert scores == sorted(scores, reverse=True)
        assert all(float(candidate.curve.loss[0]) <= 0.5 for _, candidate in pairs)
    assert not ranking.public and ranking.picture.parent == tmp_path
    assert "bank" in repr(ranking) and len(repr(ranking)) < 400


def test_a_channel_is_exact() -> None:
    measured = api.channel("global", 1, 4, epsilon=0.5)
    assert [sum(row) for row in measured.channel.counts] == [2**64] * 4
    assert "Global-map" in repr(measured)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"teta": 3}, "No mechanism has a parameter teta"),
        ({"theta": 2.5}, "theta: must be a whole number"),
        ({"theta": 0}, "theta: Input should be greater than or equal to 1"),
        ({"epsilon": -1}, "epsilon: Input should be greater than 0"),
        ({"epsilon": float("nan")}, "epsilon: Input should be a finite number"),
    ],
)
def test_a_channel_is_refused_for_its_own_cause(given: dict[str, float], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        api.channel("adj", **given)


@pytest.mark.parametrize("cap", [0, -1, float("nan"), float("inf"), "1"])
def test_a_cap_is_a_number(trained_once: Workspace, cap: float) -> None:
    with pytest.raises(ConfigError, match="finite number above 0"):
        api.plan(trained_once.folder, "bank", max_loss_1=cap)


def test_a_column_on_its_own_cells_has_the_losses_of_its_channel(trained_once: Workspace) -> None:
    federation, compared = trained_once.declared, 0
    for party in federation.feature_holders:
        for name, feature in federation.parties[party].features.items():
            if feature.type == "numeric" and feature.mechanism is not None:
                lines = {line.cells: line for line in compare_scales(federation, party, name)}
                loss = loss_curve(feature.mechanism, federation.domain.to_domain()).loss
                own = feature.scale if isinstance(feature.scale, str) else "declared edges"
                line = lines[own]
                assert (line.loss_1, line.loss_whole) == (float(loss[0]), float(loss[-1]))
                compared += 1
    assert compared


def test_a_release_is_attacked_before_it_is_made(trained_once: Workspace) -> None:
    attacked = api.leakage(trained_once.folder, "shop")
    assert attacked.party == "shop" and attacked.picture.is_file()
    assert attacked.document()["worst"]["column"] in repr(attacked)

"""Latent classes: each step explains the release better, and its laws come back."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from opboost_ops.learning.denoise.classes import Classes, Draws, LatentRows
from opboost_ops.learning.denoise.joint import impute
from opboost_ops.learning.denoise.rows import Rows, encode_rows, quantile_levels, samplable_laws
from opboost_ops.learning.denoise.starts import Start, initial_classes, smoothing_of
from opboost_ops.mechanisms import Piecewise
from tests.unit.learning.denoise.planted import CHANNEL, CHANNELS, DOMAIN, planted, released

DRAWS = Draws(bytes(32))


def small() -> tuple[Classes, Rows]:
    """Two classes of one noisy column on two values, one own column, two levels."""
    law = np.array([[0.8, 0.2], [0.3, 0.7]])
    codes = np.array(list(itertools.product((0, 1), repeat=3)))
    rows = Rows({"y": codes[:, 0]}, {"y": law}, {"w": codes[:, 1]}, {"w": 2}, codes[:, 2], 2)
    classes = Classes(
        np.array([0.6, 0.4]),
        {"y": np.array([[0.9, 0.2], [0.1, 0.8]])},
        {"w": np.array([[0.5, 0.1], [0.5, 0.9]])},
        np.array([[0.7, 0.3], [0.3, 0.7]]),
        fixed=False,
    )
    return classes, rows


def by_hand(classes: Classes, rows: Rows) -> np.ndarray:
    """pi_z (theta_z K)(y) psi_z(w) phi_z(l) for every row and class."""
    behind = rows.laws["y"].T @ classes.theta["y"]
    return np.array(
        [
            classes.pi * behind[y] * classes.psi["w"][w] * classes.phi[level]
            for y, w, level in zip(rows.noisy["y"], rows.own["w"], rows.level, strict=True)
        ]
    )


def test_responsibilities_and_scores_are_the_formula() -> None:
    classes, rows = small()
    joint = by_hand(classes, rows)
    assert joint.sum() == pytest.approx(1)
    wanted = joint / joint.sum(axis=1, keepdims=True)
    seen = LatentRows(rows, classes)
    assert seen.responsibilities(classes) == pytest.approx(wanted)
    both = np.zeros((2, 2))
    np.add.at(both, (rows.own["w"], rows.level), joint.sum(axis=1))
    given = joint.sum(axis=1) / both[rows.own["w"], rows.level]
    assert seen.scores(classes) == pytest.approx(np.log(given))


def test_a_code_that_no_fitted_row_had_says_nothing_of_the_class() -> None:
    """Classes are fitted to some of the rows, and rare codes may not be among them."""
    classes, rows = small()
    unheard = replace(classes, psi={"w": np.array([[1.0, 1.0], [0.0, 0.0]])})
    rare = rows.own["w"] == 1
    even = replace(classes, psi={"w": np.ones((2, 2))})
    known = LatentRows(rows, even).responsibilities(even)
    found = LatentRows(rows, unheard).responsibilities(unheard)
    assert found[rare] == pytest.approx(known[rare])


def test_a_row_of_fixed_levels_sees_only_its_own_levels_classes() -> None:
    """The same as if it saw all of them, those of other levels having no share."""
    classes, rows = small()
    tied = replace(classes, phi=np.eye(2), fixed=True)
    seen = LatentRows(rows, tied)
    assert tied.possible == 1
    assert seen.responsibilities(tied) == pytest.approx(np.ones((8, 1)))
    order = [0, 1, 1, 0]
    wide = Classes(
        tied.pi[[0, 0, 1, 1]] / 2,
        {"y": tied.theta["y"][:, order]},
        {"w": tied.psi["w"][:, order]},
        np.repeat(np.eye(2), 2, axis=1),
        fixed=True,
    )
    free = replace(wide, fixed=False)
    few, all_of = LatentRows(rows, wide), LatentRows(rows, free)
    found, known = few.responsibilities(wide), all_of.responsibilities(free)
    assert found.shape == (8, 2)
    for row, level in enumerate(rows.level):
        assert known[row, 2 * level : 2 * level + 2] == pytest.approx(found[row])
        assert known[row].sum() == pytest.approx(found[row].sum()) == pytest.approx(1)
    assert few.scores(wide) == pytest.approx(all_of.scores(free))
    smoothing = smoothing_of(rows, Start("tied", 0, 2))
    one, other = few.step(wide, smoothing), all_of.step(free, smoothing)
    assert one.pi == pytest.approx(other.pi)
    assert one.theta["y"] == pytest.approx(other.theta["y"])
    assert one.psi["w"] == pytest.approx(other.psi["w"])


def test_values_drawn_back_follow_the_law_of_the_clear_ones() -> None:
    """Within levels of the label, each column: much nearer than what was released."""
    clear, label = planted(20_000)
    frame = released(clear)
    rows = encode_rows(frame, samplable_laws(frame, CHANNELS)).labelled(*quantile_levels(label, 6))
    start = Start("tied", 6, 2)
    smoothing = smoothing_of(rows, start)
    classes = initial_classes(rows, start, smoothing, DRAWS)
    seen = LatentRows(rows, classes)
    for _ in range(40):
        classes = seen.step(classes, smoothing)
    drawn = impute(classes, rows, DRAWS, 0)

    def law(values: np.ndarray) -> np.ndarray:
        found = np.zeros((10, 6))
        np.add.at(found, (values, rows.level), 1 / len(values))
        return found

    for i, name in enumerate(("b.x", "b.u", "b.v")):
        truth = law(clear[:, i] - 1)
        noisy = np.abs(law(rows.noisy[name]) - truth).sum()
        assert np.abs(law(drawn[name]) - truth).sum() < 0.6 * noisy
    again = impute(classes, rows, DRAWS, 0)
    assert all(np.array_equal(drawn[name], again[name]) for name in drawn)
    assert not np.array_equal(drawn["b.x"], impute(classes, rows, DRAWS, 1)["b.x"])


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    clear, label = planted(500)
    frame = released(clear)
    rows = encode_rows(frame, samplable_laws(frame, CHANNELS)).labelled(*quantile_levels(label, 3))
    start = Start("random", 3, 5)
    smoothing = smoothing_of(rows, start)
    classes = initial_classes(rows, start, smoothing, DRAWS)
    whole, drawn = (
        LatentRows(rows, classes).step(classes, smoothing),
        impute(classes, rows, DRAWS, 0),
    )
    monkeypatch.setattr("opboost_ops.learning.denoise.classes.BLOCK", 100)
    monkeypatch.setattr("opboost_ops.learning.denoise.classes._CACHED_CELLS", 30)
    monkeypatch.setattr("opboost_ops.learning.denoise.joint.BLOCK", 1_000)
    parts, same = (
        LatentRows(rows, classes).step(classes, smoothing),
        impute(classes, rows, DRAWS, 0),
    )
    assert parts.pi == pytest.approx(whole.pi)
    assert parts.phi == pytest.approx(whole.phi)
    assert all(parts.theta[n] == pytest.approx(whole.theta[n]) for n in whole.theta)
    assert all(np.array_equal(drawn[n], same[n]) for n in drawn)


def test_what_cannot_be_drawn_back_is_left_out() -> None:
    frame = released(planted(300)[0])
    frame.matrix[:, 0] = np.minimum(frame.matrix[:, 0], 9)
    assert list(samplable_laws(frame, CHANNELS)) == ["b.u", "b.v"]
    wide = Piecewise(epsilon=1.0).channel(DOMAIN)
    assert np.allclose(samplable_laws(frame, {"b.v": CHANNEL})["b.v"], CHANNEL.probabilities())
    assert len(samplable_laws(frame, {"b.u": wide})) == 1


def test_a_column_that_is_nearly_always_one_value_starts_with_numbers() -> None:
    """Its classes have hardly any spread, by which a random move of them is divided."""
    _, rows = small()
    start = Start("random", 0, 12)
    almost = np.array([1.0 - 1e-12, 1e-12])
    smoothing = replace(smoothing_of(rows, start), original={"y": almost})
    theta = initial_classes(rows, start, smoothing, DRAWS).theta["y"]
    assert theta.sum(axis=0) == pytest.approx(np.ones(12))

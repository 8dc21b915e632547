"""The arena's attacks read what is there to read, and nothing where nothing is."""

import numpy as np
import pytest

from benchmarks.papers.arena import horizontal, vertical
from benchmarks.papers.arena.attacks import labels_read, linked, values_read
from benchmarks.papers.arena.reconstruction import Leaf, reconstruct
from benchmarks.papers.two_parties import TwoParties
from tests.unit.benchmarks.conftest import Quick


@pytest.fixture(scope="module")
def people() -> TwoParties:
    return vertical.people("credit", 0, 600)


def test_exact_histograms_give_a_joiner_away_and_noisy_ones_do_not(
    people: TwoParties, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(horizontal, "JOINERS", 25)
    held = horizontal.pool(people, 0)
    assert horizontal.joiner(held, noisy=False, seed=0) > 1.5
    assert horizontal.joiner(held, noisy=True, seed=0) < 0.1


def test_exact_values_are_read_and_coins_are_not() -> None:
    random = np.random.default_rng(0)
    secret, before = random.integers(10, size=800), random.random((800, 2))
    coins = random.integers(2, size=(800, 5))
    read = values_read({"x": secret}, secret[:, None], before, 0)
    assert read["value"] > 2
    nothing = values_read({"x": secret}, coins, before, 0)
    assert nothing["value"] < 0.05 and nothing["link"] < 0.05


def test_groups_by_label_are_read_and_groups_by_chance_are_not() -> None:
    random = np.random.default_rng(0)
    label, own = random.integers(2, size=500), random.random((500, 3))
    nodes = np.column_stack([label, 1 - label]).astype(float)
    assert labels_read(label, nodes, own, 0) > 0.9
    assert labels_read(label, random.random((500, 4)), own, 0) < 0.05


def test_a_link_is_worth_all_its_bits_or_none() -> None:
    assert linked(np.eye(8)) == pytest.approx(3)
    assert linked(np.zeros((8, 8))) == pytest.approx(0, abs=1e-9)


def test_rebuilt_rows_have_the_sums_of_the_leaves() -> None:
    random = np.random.default_rng(0)
    own = random.random((300, 2))
    everywhere = np.full(2, -np.inf), np.full(2, np.inf)
    below, above = np.array([0.5, np.inf]), np.array([0.5, -np.inf])
    # 60 of 100 rows on the left, 10 of them positive; the score is 0, so g is +-1/2 and h 1/4.
    leaves = [
        Leaf(everywhere[0], below, -0.5, (60 / 2 - 10, 60 / 4)),
        Leaf(above, everywhere[1], 0.5, (40 / 2 - 30, 40 / 4)),
    ]
    rows = reconstruct([leaves], (60, 40, 0.0), own, 0.3)
    left = rows.high[:, 0] == 0.5
    assert abs(left.sum() - 60) <= 2
    assert abs(rows.label[left].sum() - 10) <= 2


def test_the_quick_form_reads_less_of_a_release_than_of_pooled_rows(quick: Quick) -> None:
    found, section = quick("arena", "--protocol", "pooled", "desensitised")
    pooled, released = found["rows"]
    assert pooled["value"] > 3 * released["value"] and pooled["label"] == pooled["of_label"]
    assert released["label"] < 0.05
    assert "**Desensitised**" in section and "**Routed**" not in section

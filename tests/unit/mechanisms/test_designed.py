"""Designed channels: nothing of a table is trusted, and no channel under its curve costs less."""

from itertools import pairwise

import numpy as np
import pytest

from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError
from opboost_ops.mechanisms import Designed, Geometric
from opboost_ops.mechanisms.channel import TOTAL
from opboost_ops.mechanisms.designed import Table
from opboost_ops.privacy.design import design
from opboost_ops.privacy.loss import loss_curve
from opboost_ops.privacy.planner import Caps, candidates

TEN = Domain(1, 10)


def made(epsilon: float = 0.64, most: float = 2.0, domain: Domain = TEN) -> Designed:
    found = design(domain, epsilon, most)
    assert found is not None
    return found.mechanism


def table_of(mechanism: Designed) -> Table:
    assert isinstance(mechanism.table, Table)
    return mechanism.table


def cost(table: np.ndarray, outputs: np.ndarray) -> float:
    """Expected |x - y| where all inputs are equally likely, each output moved where it costs least.

    A receiver may read any other value in an output: that is no matter of the channel.
    """
    values = np.arange(1, len(table) + 1)
    away = np.abs(values[:, None] - values[None, :])
    return float((table.T @ away).min(axis=1).sum() / len(table))


def test_the_loss_is_the_curve_and_nothing_more() -> None:
    """Near it is epsilon t, far it is the most: to six digits, and never above."""
    curve = loss_curve(made(), TEN)
    assert curve.certificate is True
    for t, loss in enumerate(curve.loss, start=1):
        assert float(loss) <= min(0.64 * t, 2.0)
        assert float(loss) == pytest.approx(min(0.64 * t, 2.0), rel=1e-6)


@pytest.mark.parametrize(("epsilon", "most"), [(0.32, 2.0), (0.64, 4.0), (2.0, 4.0)])
def test_no_other_mechanism_under_the_same_caps_costs_less(epsilon: float, most: float) -> None:
    found = {}
    for candidate in candidates(TEN, Caps(epsilon, most)):
        channel = candidate.mechanism.channel(TEN)
        found[candidate.mechanism] = cost(channel.probabilities(), channel.outputs)
    ours = min(value for kind, value in found.items() if isinstance(kind, Designed))
    others = min(value for kind, value in found.items() if not isinstance(kind, Designed))
    assert ours < 0.92 * others


def test_without_a_far_bound_it_is_as_good_as_the_geometric_mechanism() -> None:
    """Which is best there, whatever the prior (Ghosh, Roughgarden and Sundararajan, 2009)."""
    geometric = Geometric(epsilon=0.5).channel(TEN)
    wanted = cost(geometric.probabilities(), geometric.outputs)
    channel = made(0.5, 4.5).channel(TEN)
    assert cost(channel.probabilities(), channel.outputs) == pytest.approx(wanted, rel=1e-6)


def test_outputs_that_are_never_given_are_left_out_and_the_others_stand_for_all_values() -> None:
    channel = made(0.3, 1.0).channel(TEN)
    assert len(channel.outputs) < TEN.size
    spans = channel.span(channel.outputs)
    assert spans[0, 0] == 1 and spans[-1, 1] == 10
    assert all(a[1] + 1 == b[0] for a, b in pairwise(spans.tolist()))
    assert channel.probabilities().max(axis=0).min() > 1e-6
    square = channel.square()
    assert square.shape == (len(channel.outputs),) * 2
    assert square.sum(axis=1) == pytest.approx(1)


def test_one_count_too_many_is_refused() -> None:
    """Near by epsilon, far by most; whatever else the table says."""
    table = table_of(made())
    rows = [list(map(int, row)) for row in table.counts]
    for x in (0, 5):
        spoiled = [list(row) for row in rows]
        best = int(np.argmax(spoiled[x]))
        other = (best + 1) % len(spoiled[x])
        spoiled[x][best] += spoiled[x][other] // 10**5
        spoiled[x][other] -= spoiled[x][other] // 10**5
        counts = tuple(tuple(map(str, row)) for row in spoiled)
        changed = table.model_copy(update={"counts": counts})
        with pytest.raises(ConfigError, match="exceeds the declared loss"):
            Designed(epsilon=0.64, most=2.0, table=changed).channel(TEN)
    for epsilon, most in ((0.63, 2.0), (0.64, 1.99)):
        with pytest.raises(ConfigError, match="exceeds the declared loss"):
            Designed(epsilon=epsilon, most=most, table=table).channel(TEN)
    Designed(epsilon=0.65, most=2.01, table=table).channel(TEN)


@pytest.mark.parametrize(
    "change",
    [
        {"outputs": (3, 2, 4, 5, 6, 7, 8, 9)},
        {"outputs": (3, 3, 4, 5, 6, 7, 8, 9)},
        {"outputs": (0, 3, 4, 5, 6, 7, 8, 9)},
        {"outputs": (3, 4, 5, 6, 7, 8, 9, 11)},
        {"outputs": (3, 4)},
        {"counts": (("1", "2"),) * 10},
        {"counts": (("0", str(TOTAL)),) * 10, "outputs": (3, 4)},
        {"counts": (("9", "9"),) * 3, "outputs": (3, 4)},
    ],
)
def test_what_is_no_channel_is_refused(change: dict[str, object]) -> None:
    table = table_of(made(0.64, 4.0)).model_copy(update=change)
    with pytest.raises(ConfigError, match="is invalid"):
        Designed(epsilon=0.64, most=4.0, table=table).channel(TEN)


def test_another_domain_and_a_file_s_name_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"is for \[1, 10\], but the domain is \[0, 9\]"):
        made().channel(Domain(0, 9))
    with pytest.raises(ConfigError, match="was not loaded"):
        Designed(epsilon=1, most=2, table="near.json").channel(TEN)


def test_nothing_to_tell_is_no_design() -> None:
    """All mass on one value: the best is to answer it always."""
    assert design(TEN, 0.5, 1.0, "absolute", [1.0, *[0.0] * 9]) is None


@pytest.mark.parametrize(
    "prior", [[1.0] * 9, [*[1.0] * 9, -1.0], [0.0] * 10, [*[1.0] * 9, float("nan")]]
)
def test_a_prior_that_does_not_fit_is_refused(prior: list[float]) -> None:
    with pytest.raises(ConfigError, match="10 weights"):
        design(TEN, 0.5, 1.0, "absolute", prior)

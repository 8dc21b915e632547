"""The clamped geometric mechanism: its loss is epsilon a step, neither more nor less."""

import pytest

from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError
from opboost_ops.mechanisms import Geometric, channel
from opboost_ops.mechanisms.channel import FLOOR
from opboost_ops.mechanisms.parameters import built
from opboost_ops.privacy.loss import loss_curve


@pytest.mark.parametrize("epsilon", [0.001, 0.01, 0.08, 0.64, 1.0, 5.12])
@pytest.mark.parametrize("size", [2, 3, 10, 64])
def test_the_loss_is_epsilon_a_step_to_nine_digits(size: int, epsilon: float) -> None:
    """As long as what makes it is likely enough for the floor not to show."""
    domain = Domain(1, size)
    curve = loss_curve(Geometric(epsilon=epsilon), domain)
    table = Geometric(epsilon=epsilon).channel(domain).probabilities()
    assert curve.certificate is True
    told = 0
    for t, loss in enumerate(curve.loss, start=1):
        assert 0 < float(loss) <= t * epsilon * (1 + 1e-15)
        # The largest, over all pairs t apart, of the lesser of the two probabilities at an end.
        if max(table[x + t, 0] for x in range(size - t)) >= 1e-5:
            assert float(loss) == pytest.approx(t * epsilon, rel=1e-9)
            told += 1
    assert told >= min(size - 1, int(9 / epsilon))


def test_no_loss_passes_what_the_floor_allows() -> None:
    curve = loss_curve(Geometric(epsilon=1000.0), Domain(1, 4))
    assert curve.certificate is True
    assert max(float(loss) for loss in curve.loss) < 36.1
    assert min(min(row) for row in Geometric(epsilon=1000.0).channel(Domain(1, 4)).counts) == FLOOR


def test_a_table_that_does_not_keep_its_loss_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the floor, rounding alone breaks the bound somewhere in the tails."""
    built.cache_clear()
    monkeypatch.setattr(channel, "FLOOR", 0)
    with pytest.raises(ConfigError, match="exceeds its declared loss"):
        Geometric(epsilon=3.0).channel(Domain(1, 12))
    built.cache_clear()


def test_one_count_too_many_is_not_certified() -> None:
    counts = [list(row) for row in Geometric(epsilon=0.5).channel(Domain(1, 5)).counts]
    assert channel.keeps_steps(counts, 0.5)
    room = int(FLOOR * (2.718281828459045**0.5 - 1)) + 2
    counts[0][0] += room
    counts[0][1] -= room
    assert not channel.keeps_steps(counts, 0.5)

"""The audit of private sessions: it stays below what is declared, and finds what is not kept."""

import numpy as np
import pytest

from benchmarks.papers import horizontal_audit
from benchmarks.papers.horizontal_audit import KNOWN, SETTINGS, Private, Session, Setting, audit
from benchmarks.papers.lower_bounds import lower_bound
from opboost_ops.learning.federboost.private_federboost import learn_private, sums_of


def test_bounds_are_clopper_and_pearsons():
    # Of 10,000 none: at most 1 - 0.025^(1/10000); all: at least 0.025^(1/10000).
    least = 0.025**1e-4
    expected = np.log((least - 0.01) / (1 - least))
    assert lower_bound(10_000, 0, 10_000, 0.01) == pytest.approx(expected)
    assert lower_bound(50, 50, 10_000, 0.01) == 0.0


def test_the_box_gives_the_exact_sums_where_no_noise_is_added(monkeypatch):
    """Masks as in a session: what comes off is the sum."""
    monkeypatch.setattr(
        horizontal_audit.noise, "skellam", lambda size, mean: np.zeros(size, dtype=np.int64)
    )
    setting = Setting()
    session = Session(setting, setting.noise)
    private = Private(setting.epsilon, setting.delta, 2)
    learn_private([KNOWN[0]], KNOWN[1].astype(float), SETTINGS, private, session)
    assert session.parties == 3
    units = sums_of(SETTINGS, private).units
    assert session.seen["facts-00000-00"].tolist() == [3 * units, 3 * units]
    assert session.seen["lookup-00000-00"].tolist() == [16, 32, 32, 16]
    assert len(session.seen["trees-00000-00"]) == 4


@pytest.mark.deployment
def test_the_lower_bound_is_below_epsilon_and_above_it_where_noise_is_missing():
    found = audit(Setting(epsilon=2.0), 1000)
    assert found["lower_bound"] <= found["epsilon"] <= 2.0
    # The guess is a good one: with the noise as declared it is right more often than chance.
    assert found["mean_difference"] > 0
    broken = audit(Setting(epsilon=2.0, weakened=64), 1000)
    assert broken["lower_bound"] > broken["epsilon"]

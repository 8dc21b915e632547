"""Dividing a total loss: against a regression on draws, and against all even divisions."""

import itertools

import numpy as np
import pytest

from opboost_ops.domain import Domain
from opboost_ops.mechanisms import Designed, Geometric
from opboost_ops.privacy.division import (
    Divider,
    Evidence,
    independent,
    mechanism_under,
    sampled,
)
from opboost_ops.privacy.loss import end_losses
from opboost_ops.privacy.planner import Caps

SIX = Domain(1, 6)


def sample(rows: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Three columns: a strong one, a copy of it with a little of its own, and a weak one."""
    random = np.random.default_rng(3)
    strong = random.integers(0, 6, rows)
    copy = np.clip(strong + random.integers(-1, 2, rows), 0, 5)
    weak = random.integers(0, 6, rows)
    label = 3.0 * strong + 1.0 * weak + random.normal(0, 1, rows)
    return np.column_stack([strong, copy, weak]), label


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    codes, label = sample()
    return sampled(("strong", "copy", "weak"), codes, label, 0, SIX.size)


def test_what_is_kept_is_what_a_regression_on_released_values_finds(evidence: Evidence) -> None:
    """Many noisy copies of the rows, least squares on each column's best prediction."""
    divider = Divider(evidence, [SIX] * len(evidence.names), Caps(step=4.0))
    best = divider.best(divider.units)
    codes, label = sample()
    random = np.random.default_rng(5)
    many, predictions = np.tile(label, 20), []
    for j, name in enumerate(evidence.names):
        if name in best.shares:
            mechanism = divider.mechanism(name, best.shares[name])
            assert mechanism is not None
            law = mechanism.channel(SIX).probabilities()
            steps = law.cumsum(axis=1)[np.tile(codes[:, j], 20)]
            out = (random.random(len(many))[:, None] > steps[:, :-1]).sum(axis=1)
            means = [many[out == y].mean() if (out == y).any() else 0.0 for y in range(6)]
            predictions.append(np.array(means)[out])
    matrix = np.column_stack([np.ones(len(many)), *predictions])
    fitted = matrix @ np.linalg.lstsq(matrix, many, rcond=None)[0]
    assert fitted.var() / many.var() == pytest.approx(best.kept, abs=0.01)


def test_no_even_division_of_any_columns_is_better(evidence: Evidence) -> None:
    divider = Divider(evidence, [SIX] * len(evidence.names), Caps(step=3.0))
    best = divider.best(divider.units)
    assert sum(best.shares.values()) == divider.units
    for count in (1, 2, 3):
        for chosen in itertools.combinations(range(3), count):
            share, more = divmod(divider.units, count)
            shares = {j: share + (at < more) for at, j in enumerate(chosen)}
            assert divider._explained_by(shares) <= best.kept + 1e-9
    assert divider.even(divider.units) < best.kept


def test_a_small_total_goes_to_the_strong_column_alone(evidence: Evidence) -> None:
    """Shares grow faster than the loss there, and the copy says nothing new."""
    calls: list[tuple[int, int]] = []
    domains = [SIX] * len(evidence.names)
    divider = Divider(evidence, domains, Caps(step=0.3), lambda *done: calls.append(done))
    assert calls == [(done, len(calls)) for done in range(1, len(calls) + 1)]
    assert divider.best(divider.units).shares == {"strong": divider.units}


def test_declared_importances_are_shares_of_the_variance() -> None:
    divider = Divider(independent({"a": 3.0, "b": 1.0}, [6, 6]), [SIX, SIX], Caps(step=60.0))
    assert divider.unprotected() == pytest.approx(1.0, abs=1e-6)
    small = Divider(independent({"a": 3.0, "b": 1.0}, [6, 6]), [SIX, SIX], Caps(step=0.2))
    assert small.best(small.units).shares == {"a": small.units}
    even = Divider(independent({"a": 1.0, "b": 1.0}, [6, 6]), [SIX, SIX], Caps(step=8.0))
    found = even.best(even.units).shares
    assert found == {"a": even.units // 2, "b": even.units // 2}


@pytest.mark.parametrize(
    ("caps", "kind"),
    [
        (Caps(step=0.7), Geometric),
        (Caps(step=0.7, whole=2.0), Designed),
        (Caps(whole=2.0), Designed),
        (Caps(step=0.1, whole=30.0), Geometric),
    ],
)
def test_a_column_s_mechanism_keeps_its_part(caps: Caps, kind: type) -> None:
    mechanism = mechanism_under(SIX, caps)
    assert isinstance(mechanism, kind)
    step, whole = end_losses(mechanism.channel(SIX))
    assert caps.step is None or 0.99 * min(caps.step, whole) <= step <= caps.step
    assert caps.whole is None or whole <= caps.whole

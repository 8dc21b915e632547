"""A channel's counts key the noise: they depend on nothing but its parameters."""

from decimal import ROUND_DOWN, localcontext

import pytest

from opboost_ops.domain import Domain
from opboost_ops.mechanisms import Mechanism, MissingBit, UnaryEncoding
from opboost_ops.mechanisms.parameters import built
from opboost_ops.mechanisms.randomised_response import BIT
from tests.unit.mechanisms.test_operations import MECHANISMS

BITS = [UnaryEncoding(epsilon=0.3), MissingBit(epsilon=0.3)]


@pytest.mark.parametrize("mechanism", [*MECHANISMS, *BITS], ids=lambda m: m.name)
def test_the_callers_decimal_context_changes_nothing(mechanism: Mechanism) -> None:
    domain = BIT if mechanism in BITS else Domain(1, 9)
    usual = mechanism.channel(domain).counts
    built.cache_clear()
    with localcontext() as context:
        context.prec, context.rounding = 10, ROUND_DOWN
        assert mechanism.channel(domain).counts == usual

"""A channel's counts key the noise: they depend on nothing but its parameters."""

from decimal import ROUND_DOWN, localcontext

import pytest

from opboost_ops.domain import Domain
from opboost_ops.mechanisms import (
    AdjMap,
    BucketResponse,
    GeneralisedResponse,
    Geometric,
    GlobalMap,
    LocalMap,
    MissingBit,
    Piecewise,
    UnaryEncoding,
)
from opboost_ops.mechanisms.bits import BIT
from opboost_ops.mechanisms.parameters import built


@pytest.mark.parametrize(
    "kind",
    [
        (GlobalMap, {}),
        (Geometric, {}),
        (AdjMap, {"theta": 3, "alpha": 0.7}),
        (LocalMap, {"theta": 3}),
        (BucketResponse, {"buckets": 3}),
        (GeneralisedResponse, {}),
        (Piecewise, {}),
        (UnaryEncoding, {}),
        (MissingBit, {}),
    ],
    ids=lambda kind: kind[0].__name__,
)
def test_the_callers_decimal_context_changes_nothing(kind: tuple) -> None:
    make, parameters = kind
    domain = BIT if make in (UnaryEncoding, MissingBit) else Domain(1, 9)
    usual = make(epsilon=0.3, **parameters).channel(domain).counts
    # A different but equal-valued parameter set misses the cache of built channels.
    built.cache_clear()
    with localcontext() as context:
        context.prec, context.rounding = 10, ROUND_DOWN
        assert make(epsilon=0.3, **parameters).channel(domain).counts == usual

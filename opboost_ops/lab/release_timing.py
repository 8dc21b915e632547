"""Seconds of randomising values, beside order-preserving encryption of the same ones.

By the processor's clock, for all of it is of one thread.
"""

import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from pydantic import TypeAdapter

from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError
from opboost_ops.mechanisms import Mechanism, noise
from opboost_ops.mechanisms.release import randomise

#: The workload of the paper's Table 4: values, and where they lie.
VALUES, DOMAIN, THETA = 100_000, Domain(1, 100), 10
EPSILON = 1.0
#: pyope takes a millisecond a value: so many are timed, and the rest is extrapolated.
PYOPE_VALUES = 200
REPEATS = 5

_SAMPLERS = ("exponential", "bounded_laplace")
#: Each with the paper's two names for its law, where it has them.
METHODS: tuple[tuple[str, str], ...] = (
    *((name, sampler) for name in ("global_map", "adj_map", "local_map") for sampler in _SAMPLERS),
    ("geometric", ""),
    ("bucket_response", ""),
    ("grr", ""),
    ("piecewise", ""),
)
_PARTITIONED = ("adj_map", "local_map")
_MECHANISM: TypeAdapter[Mechanism] = TypeAdapter(Mechanism)
_PUBLIC, _COLUMN = bytes(32), uuid.UUID(int=1)


def mechanism_of(method: str, sampler: str) -> Mechanism:
    """A mechanism of the first workload.

    Args:
        method: Its name.
        sampler: The paper's name for its law; empty where it has none.
    """
    data: dict[str, Any] = {"name": method, "epsilon": EPSILON}
    if sampler:
        data["sampler"] = sampler
    if method in _PARTITIONED:
        data["theta"] = THETA
    return _MECHANISM.validate_python(data)


def release_cost(
    cell: Mapping[str, Any], repeats: int = REPEATS, sample: int = PYOPE_VALUES
) -> dict[str, float]:
    """Time one mechanism, and pyope on the same values, by turns.

    From person keys to outputs; the keys, once a table, are timed apart.

    Args:
        cell: ``method`` and ``sampler``.
        repeats: How often.
        sample: How many values pyope encrypts.

    Raises:
        ConfigError: pyope is not installed.
    """
    mechanism = mechanism_of(cell["method"], cell["sampler"])
    # Every value equally often, in an order that no cache likes.
    values = np.arange(VALUES, dtype=np.int64) * 61 % DOMAIN.size + DOMAIN.lower
    ids = pa.array([f"p{i:07d}" for i in range(VALUES)])
    keys, key_seconds = least(lambda: noise.person_keys(_PUBLIC, ids, "string"), 1)
    ours, theirs = [], []
    for _ in range(repeats):
        _, seconds = least(
            lambda: randomise(values, keys, mechanism, DOMAIN, b"map", _PUBLIC, _COLUMN),
            REPEATS,
        )
        ours.append(seconds)
        theirs.append(pyope_seconds(values[:sample]) * VALUES / sample)
    return {
        "seconds": min(ours),
        "nanoseconds_a_cell": min(ours) / VALUES * 1e9,
        "pyope_seconds": min(theirs),
        "times_pyope": min(theirs) / min(ours),
        "key_seconds": key_seconds,
    }


def pyope_seconds(values: np.ndarray) -> float:
    """Processor seconds in which pyope encrypts some values.

    Args:
        values: Integers of the domain.

    Raises:
        ConfigError: It is not installed.
    """
    try:
        from pyope.ope import OPE, ValueRange
    except ImportError:
        OPE = None  # noqa: N806
    if OPE is None:
        raise ConfigError("pyope is not installed.", "Install the extra `bench`.")
    cipher = OPE(_PUBLIC, ValueRange(DOMAIN.lower, DOMAIN.upper), ValueRange(1, 2**31 - 1))
    some = values.tolist()
    begin = time.process_time()
    for value in some:
        cipher.encrypt(value)
    return time.process_time() - begin


def naming(timed: pl.DataFrame) -> list[dict[str, Any]]:
    """The paper's two names for a law: whether their counts are the same, and their times.

    Args:
        timed: Measurements of `release_cost`.
    """
    lines = []
    for method in dict.fromkeys(name for name, sampler in METHODS if sampler):
        channels = [mechanism_of(method, sampler).channel(DOMAIN) for sampler in _SAMPLERS]
        mine = timed.filter(pl.col("method") == method)
        seconds = {
            sampler: mine.filter(pl.col("sampler") == sampler).get_column("seconds").min()
            for sampler in _SAMPLERS
        }
        same = channels[0].counts == channels[1].counts
        lines.append({"method": method, "same_counts": same, "seconds": seconds})
    return lines


def least(work: Callable[[], Any], repeats: int) -> tuple[Any, float]:
    """The work's result, and the least of its processor seconds after one run that is not counted.

    Args:
        work: What is timed.
        repeats: How often.
    """
    result, seconds = work(), []
    for _ in range(repeats):
        begin = time.process_time()
        work()
        seconds.append(time.process_time() - begin)
    return result, min(seconds)

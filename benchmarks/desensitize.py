"""Desensitisation beside order-preserving encryption and a float inverse-CDF, in one run.

The workload of the OpBoost paper's Table 4: 100,000 values on [1, 100]. Timed from person keys to
outputs; the keys themselves, once a table, are timed apart. Also one table of many cells from
Parquet to Parquet, beside reading and writing the same table.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks.measure import forget_peak, parser_of, show, status, timed
from opboost_ops.domain import Domain, DomainMap
from opboost_ops.exchange.files import smallest_integers
from opboost_ops.mechanisms import (
    AdjMap,
    BucketResponse,
    GeneralisedResponse,
    Geometric,
    GlobalMap,
    LocalMap,
    Mechanism,
    Piecewise,
    noise,
)
from opboost_ops.mechanisms.noise import Words
from opboost_ops.mechanisms.release import randomise

SECRET = bytes(32)


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = parser_of(__doc__)
    parser.add_argument("--values", type=int, default=100_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--pyope-values", type=int, default=200, help="timed, then scaled")
    parser.add_argument("--repeats", type=int, default=7, help="the median counts")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the table")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    domain = Domain(1, 100)
    values = rng.integers(domain.lower, domain.upper + 1, options.values)
    ids = pa.array([f"p{i:07d}" for i in range(options.values)])
    _, key_seconds = timed(lambda: noise.person_keys(SECRET, ids, "string"), 3)
    pyope = pyope_seconds(values, domain, options.pyope_values)
    result: dict[str, Any] = {
        "values": options.values,
        "domain": [1, 100],
        "epsilon": options.epsilon,
        "person_keys_seconds": round(key_seconds, 6),
        "pyope_seconds": round(pyope, 3),
        "mechanisms": {},
    }
    for mechanism in mechanisms(options.epsilon):
        _, ours = timed(lambda m=mechanism: release(values, m, domain), options.repeats)
        _, floats = timed(lambda m=mechanism: inverse_cdf(values, m, domain, rng), options.repeats)
        result["mechanisms"][mechanism.label()] = {
            "seconds": round(ours, 6),
            "numpy_seconds": round(floats, 6),
            "speedup_over_pyope": round(pyope / ours, 1),
            "speedup_over_numpy": round(floats / ours, 3),
        }
    result["table"] = table(options.rows, options.epsilon, rng)
    show(result, options)


def mechanisms(epsilon: float) -> list[Mechanism]:
    """All mechanisms, with the paper's partitions."""
    return [
        GlobalMap(epsilon=epsilon),
        Geometric(epsilon=epsilon),
        AdjMap(epsilon=epsilon, theta=10),
        LocalMap(epsilon=epsilon, theta=10),
        BucketResponse(epsilon=epsilon),
        GeneralisedResponse(epsilon=epsilon),
        Piecewise(epsilon=epsilon),
    ]


def release(values: np.ndarray, m: Mechanism, domain: Domain) -> np.ndarray:
    """Ours."""
    return randomise(values, m, domain, Words.fresh())


def inverse_cdf(
    values: np.ndarray, m: Mechanism, domain: Domain, rng: np.random.Generator
) -> np.ndarray:
    """Float sampling without keys: one search in the rows' distribution functions, end to end."""
    channel = m.channel(domain)
    steps = np.cumsum(channel.probabilities(), axis=1)
    steps[:, -1] = 1.0
    rows = values - domain.lower
    flat = (steps + np.arange(len(steps))[:, None]).reshape(-1)
    found = np.searchsorted(flat, rows + rng.random(len(values)), side="right")
    return channel.outputs[np.minimum(found - rows * steps.shape[1], steps.shape[1] - 1)]


def pyope_seconds(values: np.ndarray, domain: Domain, timed_values: int) -> float:
    """Seconds that pyope would take for all values, from fewer of them."""
    from pyope.ope import OPE, ValueRange

    cipher = OPE(bytes(32), ValueRange(domain.lower, domain.upper), ValueRange(1, 2**31 - 1))
    some = [int(v) for v in values[:timed_values]]
    begin = time.perf_counter()
    for value in some:
        cipher.encrypt(value)
    return (time.perf_counter() - begin) * len(values) / len(some)


def table(rows: int, epsilon: float, rng: np.random.Generator) -> dict[str, float]:
    """Ten columns from Parquet to desensitised Parquet, beside reading and writing them."""
    domain, bounds = Domain(1, 10), (-4.0, 4.0)
    mapping, mechanism = DomainMap(domain, bounds), GlobalMap(epsilon=epsilon)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.parquet", Path(folder) / "out.parquet"
        pl.DataFrame({f"x{i}": rng.normal(size=rows) for i in range(10)}).write_parquet(source)
        _, copied = timed(lambda: pl.read_parquet(source).write_parquet(target), 3)

        def protect() -> None:
            frame = pl.read_parquet(source)
            columns = {}
            for name in frame.columns:
                codes = mapping.encode(frame.get_column(name).to_numpy())
                out = randomise(codes, mechanism, domain, Words.fresh())
                columns[name] = pl.Series(smallest_integers(out))
            pl.DataFrame(columns).write_parquet(target)

        _, protected = timed(protect, 3)
        forget_peak()
        before = status("VmRSS")
        protect()
        peak = status("VmHWM") - before
    size = 8 * rows * 10
    return {
        "rows": rows,
        "copy_seconds": round(copied, 4),
        "protect_seconds": round(protected, 4),
        "ratio": round(protected / copied, 3),
        "table_bytes": size,
        "peak_bytes": peak,
        "peak_over_table": round(peak / size, 2),
    }


if __name__ == "__main__":
    main()

"""Where cells lie: by a formula, by edges of a public sample, or by private edges."""

import numpy as np
from scipy.stats import rankdata

from benchmarks.papers.two_parties import DOMAIN
from opboost_ops.config.feature import Feature
from opboost_ops.domain import Domain, DomainMap, quantile_edges
from opboost_ops.extras.lab.advice import order_kept
from opboost_ops.mechanisms import Geometric, noise
from opboost_ops.mechanisms.private_quantiles import draw, grid, weights

DATASETS = ("casp", "give_me_some_credit", "adult", "powerplant", "pendigits", "abalone")
SAMPLE = 1000
_KEY = b"a public key, for benchmarks ..."


def numeric(feature: Feature) -> bool:
    """Whether a column has a range to lay cells on."""
    return feature.type == "numeric" and feature.bounds is not None


def formula(_: str, feature: Feature, __: np.ndarray, *, scale: str) -> DomainMap:
    """Cells of equal width, or of equal width in log1p of the distance from the lower bound."""
    if not numeric(feature):
        return feature.domain_map(DOMAIN)
    assert feature.bounds is not None
    return DomainMap(DOMAIN, feature.bounds, scale)


def sampled(_: str, feature: Feature, values: np.ndarray, *, seed: int) -> DomainMap:
    """Cells of equal shares of a sample."""
    if not numeric(feature):
        return feature.domain_map(DOMAIN)
    assert feature.bounds is not None
    rows = np.random.default_rng(seed).choice(len(values), min(SAMPLE, len(values)), replace=False)
    sample = np.clip(values[rows], *feature.bounds)
    if sample.min() == sample.max():
        return feature.domain_map(DOMAIN)
    return DomainMap(DOMAIN, feature.bounds, "edges", quantile_edges(sample, DOMAIN.size))


def planned(name: str, feature: Feature, values: np.ndarray, *, seed: int) -> DomainMap:
    """What `opboost plan --write` would choose of these three by the same sample."""
    if not numeric(feature):
        return feature.domain_map(DOMAIN)
    sample = np.random.default_rng(seed).choice(values, min(SAMPLE, len(values)), replace=False)
    maps = {
        "linear": formula(name, feature, values, scale="linear"),
        "log1p": formula(name, feature, values, scale="log1p"),
        "edges": sampled(name, feature, values, seed=seed),
    }
    inside = np.clip(sample, *maps["linear"].bounds)
    ranks = rankdata(inside)

    def order(kind: str) -> float:
        return order_kept(inside, maps[kind], Geometric(epsilon=0.5), DOMAIN, ranks)[0]

    return maps[max(maps, key=order)]


def private(
    name: str,
    feature: Feature,
    values: np.ndarray,
    *,
    epsilon: float,
    seed: int,
    domain: Domain = DOMAIN,
) -> DomainMap:
    """Cells by private edges."""
    if not numeric(feature):
        return feature.domain_map(domain)
    assert feature.bounds is not None
    points = grid(feature.bounds)
    below = np.searchsorted(np.sort(values), points, side="right")
    key = noise.keyed_by(_KEY, f"{name} {seed} {epsilon}")
    places = draw(
        below, len(values), weights(domain.size, epsilon), domain.size, noise.Words(key).below
    )
    edges = points[list(places)]
    return DomainMap(domain, feature.bounds, "edges", tuple(float(edge) for edge in edges))

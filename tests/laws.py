"""The law of each mechanism, written from its formula in floating point."""

import numpy as np

from opboost_ops.domain import Domain


def laplace(x: int, ys: np.ndarray, epsilon: float) -> np.ndarray:
    """Probabilities proportional to exp(-|x - y| epsilon / 2)."""
    weights = np.exp(-np.abs(ys - x) * epsilon / 2)
    return np.asarray(weights / weights.sum())


def global_law(epsilon: float, domain: Domain, x: int) -> np.ndarray:
    return laplace(x, domain.values(), epsilon)


def geometric_law(epsilon: float, domain: Domain, x: int) -> np.ndarray:
    """Two-sided geometric noise; what falls outside is summed up at the ends."""
    reach = domain.size + int(80 / epsilon)
    noise = np.arange(-reach, reach + 1)
    weights = np.exp(-np.abs(noise) * epsilon)
    clamped = np.clip(x + noise, domain.lower, domain.upper) - domain.lower
    return np.bincount(clamped, weights / weights.sum(), minlength=domain.size)


def local_law(theta: int, epsilon: float, domain: Domain, x: int) -> np.ndarray:
    own = (domain.values() - domain.lower) // theta == (x - domain.lower) // theta
    result = np.zeros(domain.size)
    result[own] = laplace(x, domain.values()[own], epsilon)
    return result


def adj_law(theta: int, alpha: float, epsilon: float, domain: Domain, x: int) -> np.ndarray:
    near = epsilon / (alpha + theta / domain.size)
    part = (domain.values() - domain.lower) // theta
    home, parts = (x - domain.lower) // theta, np.arange(part[-1] + 1)
    between = laplace(home, parts, alpha * theta * near)
    inside = [laplace(x, domain.values()[part == m], near) for m in parts]
    return np.concatenate([w * within for w, within in zip(between, inside, strict=True)])


def response_law(buckets: int, epsilon: float, domain: Domain, x: int) -> np.ndarray:
    """Bucket b begins with the first value v whose v buckets / |D| is b or more."""
    cuts = tuple(-(-b * domain.size // buckets) for b in range(1, buckets))
    return uneven_law(cuts, epsilon, domain, x)


def uneven_law(cuts: tuple[int, ...], epsilon: float, domain: Domain, x: int) -> np.ndarray:
    """Buckets that begin so many values above the least one."""
    result = np.zeros(domain.size)
    for first, end in zip((0, *cuts), (*cuts, domain.size), strict=True):
        weight = np.exp(epsilon if first <= x - domain.lower < end else 0)
        result[(first + end - 1) // 2] = weight / (np.exp(epsilon) + len(cuts))
    return result


def piecewise_law(epsilon: float, domain: Domain, x: int) -> np.ndarray:
    """The density of Wang et al. between the cuts at which its output is rounded."""
    root = np.exp(epsilon / 2)
    reach = (root + 1) / (root - 1)
    high = (np.exp(epsilon) - root) / (2 * root + 2)
    t = 2 * (x - domain.lower) / (domain.size - 1) - 1
    left = (reach + 1) / 2 * t - (reach - 1) / 2
    right = left + reach - 1

    def below(z: float) -> float:
        bulge = min(max(z, left), right) - left
        return float(high / np.exp(epsilon) * (z + reach - bulge) + high * bulge)

    halves = (np.arange(domain.size - 1) + 0.5) / (domain.size - 1) * 2 - 1
    return np.diff([below(z) for z in (-reach, *halves, reach)])


def missing_law(epsilon: float, domain: Domain, x: int) -> np.ndarray:
    stay = np.exp(epsilon) / (np.exp(epsilon) + 1)
    return np.array([1 - stay, stay] if x else [stay, 1 - stay])


def unary_law(epsilon: float, domain: Domain, x: int) -> np.ndarray:
    """The bit that is set stays with 1/2; a clear one becomes set with 1 / (e^eps + 1)."""
    rises = 1 / (np.exp(epsilon) + 1)
    return np.outer([0.5, 0.5], [1 - rises, rises]).ravel()

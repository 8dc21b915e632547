"""A tree's leaf as a sum of steps, one for each split on its path."""

from collections.abc import Mapping


def scaled_leaves(
    children: Mapping[int, tuple[int, int]],
    factors: Mapping[int, float],
    leaves: Mapping[int, tuple[float, float]],
) -> dict[int, float]:
    """Multiply what each split adds to the mean of its node.

    Args:
        children: Of each inner node; node 0 is the root.
        factors: Of each inner node.
        leaves: Value and positive weight of each leaf.

    Returns:
        New values of the leaves.
    """
    means: dict[int, tuple[float, float]] = dict(leaves)

    def mean(node: int) -> tuple[float, float]:
        if node not in means:
            sides = [mean(child) for child in children[node]]
            weight = sum(w for _, w in sides)
            means[node] = (sum(value * w for value, w in sides) / weight, weight)
        return means[node]

    found: dict[int, float] = {}
    ahead = [(0, mean(0)[0])]
    while ahead:
        node, value = ahead.pop()
        if node in leaves:
            found[node] = value
            continue
        for child in children[node]:
            ahead.append((child, value + factors[node] * (mean(child)[0] - mean(node)[0])))
    return found

"""Mechanisms as plain values, and the epsilon at which each has a given loss."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal

from pydantic import TypeAdapter

from benchmarks.papers.markdown import table
from opboost_ops.config.agreement import MAX_STEP_LOSS, MAX_WHOLE_LOSS
from opboost_ops.domain import Domain
from opboost_ops.mechanisms import Mechanism
from opboost_ops.privacy.loss import end_losses
from opboost_ops.privacy.planner import Caps, designed_under

#: The paper's: 0.01 to 5.12, doubling.
EPSILONS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12)
ALPHAS = (0.4, 0.6, 0.8, 2.0, 5.0, 10.0)

#: What makes a setting; 0 stands for a parameter that a method does not have.
KEYS = ("method", "epsilon", "theta", "alpha", "buckets")

#: Which loss is held equal: loss(1), or loss(R - L).
Which = Literal["loss_1", "loss_whole"]

_LOSSES: Mapping[Which, str] = {"loss_1": "loss(1)", "loss_whole": "loss(R - L)"}

#: An epsilon is found when its loss is this near to the target, as a share of it.
_NEAR = 0.002

_NAMES = {
    "global_map": "Global-map",
    "geometric": "clamped geometric",
    "adj_map": "Adj-map",
    "local_map": "Local-map",
    "piecewise": "Piecewise",
    "bucket_response": "bucketed response",
    "grr": "generalised response",
}
_MECHANISM: TypeAdapter[Mechanism] = TypeAdapter(Mechanism)


def method(name: str, theta: int = 0, alpha: float = 0.0, buckets: int = 0) -> dict[str, Any]:
    """A method but for its epsilon.

    Args:
        name: The mechanism's.
        theta: Length of partitions.
        alpha: Of Adj-map.
        buckets: Of the bucketed response.
    """
    return {"method": name, "theta": theta, "alpha": alpha, "buckets": buckets}


def compared(
    methods: Sequence[Mapping[str, Any]], targets: Mapping[str, Sequence[float]]
) -> list[dict[str, Any]]:
    """Methods at nominal epsilons (``epsilon``), or at equal losses, which Local-map has not.

    Args:
        methods: From `method`.
        targets: By ``epsilon`` or `Which`.
    """
    return [
        {"match": which, "target": target, **method}
        for method in methods
        for which, values in targets.items()
        for target in values
        if which == "epsilon" or method["method"] != "local_map"
    ]


def equal_table(
    rows: Sequence[Mapping[str, Any]],
    targets: Sequence[tuple[Which, float]],
    cell: Callable[[Mapping[str, Any]], str],
) -> str:
    """Methods at equal loss in Markdown, a line each.

    Args:
        rows: Measurements of what `compared` gave.
        targets: Losses that are shown.
        cell: Of one row.
    """
    lines: dict[str, dict[tuple[Which, float], str]] = {}
    for row in rows:
        lines.setdefault(name_of(row), {})[row["match"], row["target"]] = cell(row)
    heads = ["method", *(f"{_LOSSES[which]} = {target:g}" for which, target in targets)]
    return table(heads, ([name, *(of[at] for at in targets)] for name, of in lines.items()))


def mechanism_of(setting: Mapping[str, Any]) -> Mechanism:
    """The mechanism of a setting."""
    given = {key: setting[key] for key in ("theta", "alpha", "buckets") if setting[key]}
    data = {"name": setting["method"], "epsilon": setting["epsilon"], **given}
    return _MECHANISM.validate_python(data)


def name_of(setting: Mapping[str, Any]) -> str:
    """A method in words, without its epsilon."""
    more = [f"{key} {setting[key]:g}" for key in ("theta", "alpha", "buckets") if setting[key]]
    return ", ".join([_NAMES[setting["method"]], *more])


def epsilon_at(setting: Mapping[str, Any], domain: Domain, which: Which, target: float) -> float:
    """The epsilon at which a method has a given loss, to 0.2 % of it.

    Args:
        setting: A method with finite loss; its epsilon is not looked at.
        domain: Where it works.
        which: The loss that is given.
        target: What it is to be.
    """
    epsilon = target
    if which == "loss_whole" and setting["method"] in ("global_map", "adj_map"):
        # Epsilon is a loss per unit of distance, of which about a half is used.
        epsilon = 2 * target / domain.size
    if which == "loss_whole" and setting["method"] == "geometric":
        epsilon = target / (domain.size - 1)
    for _ in range(12):
        made = mechanism_of({**setting, "epsilon": epsilon}).channel(domain)
        loss = end_losses(made)[0 if which == "loss_1" else 1]
        if abs(loss / target - 1) <= _NEAR:
            break
        # Losses grow almost in proportion to epsilon.
        epsilon *= target / loss
    return float(f"{epsilon:.6g}")


def shown(value: float) -> float | str | None:
    """A figure as JSON has it: six digits, ``inf`` as a word, nothing for what was not measured."""
    if math.isnan(value):
        return None
    return "inf" if math.isinf(value) else float(f"{value:.6g}")


@cache
def on_ten(spent: float = 0.0, times: float = 1.0) -> Mechanism:
    """A channel on [1, 10] under the caps of `opboost init`.

    Args:
        spent: Part of both caps that the edges of the cells have cost.
        times: A multiple of both caps.
    """
    return under(10, Caps(times * MAX_STEP_LOSS - spent, times * MAX_WHOLE_LOSS - spent))


@cache
def under(values: int, caps: Caps) -> Mechanism:
    """The channel that is designed for so many values.

    Args:
        values: Of the domain.
        caps: On both losses.
    """
    mechanism = designed_under(Domain(1, values), caps)
    assert mechanism is not None
    return mechanism

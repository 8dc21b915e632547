"""Exact channels of mechanisms, and channels designed for a prior under two losses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from opboost_ops import mechanisms
from opboost_ops.config.agreement import table_digest, table_text
from opboost_ops.config.faults.validation import entry_faults
from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError, require_none
from opboost_ops.mechanisms.channel import Channel
from opboost_ops.mechanisms.designed import Designed, Table
from opboost_ops.mechanisms.geometric import LEAST_EPSILON
from opboost_ops.privacy.design import Cost, design
from opboost_ops.privacy.loss import LossCurve, loss_curve

#: Mechanisms by short name.
_MECHANISMS: Mapping[str, type[Any]] = {
    "global": mechanisms.GlobalMap,
    "geometric": mechanisms.Geometric,
    "adj": mechanisms.AdjMap,
    "local": mechanisms.LocalMap,
    "bucket": mechanisms.BucketResponse,
    "grr": mechanisms.GeneralisedResponse,
    "piecewise": mechanisms.Piecewise,
}


@dataclass(frozen=True)
class Measured:
    """A channel and its losses.

    Attributes:
        channel: The channel, as integer counts out of 2^64.
        curve: Its loss curve.
        design: ``expected_cost``, ``table_digest``, ``declaration`` and ``prior`` of a designed
            channel; otherwise empty.
    """

    channel: Channel
    curve: LossCurve
    design: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        inputs, outputs = self.channel.probabilities().shape
        return f"Measured({self.curve.mechanism}: {inputs} x {outputs}, loss {self.curve.loss})"

    def document(self) -> dict[str, Any]:
        """Return the channel and its losses as a JSON object."""
        return {
            "mechanism": self.curve.mechanism,
            "inputs": self.channel.inputs.tolist(),
            "outputs": self.channel.outputs.tolist(),
            "probabilities": self.channel.probabilities().tolist(),
            "counts": [[str(count) for count in row] for row in self.channel.counts],
            "loss": list(self.curve.loss),
            "certificate": self.curve.certificate,
            **self.design,
        }


def channel(
    mechanism: str,
    lower: int = 1,
    upper: int = 10,
    *,
    most: float | None = None,
    cost: Cost = "absolute",
    prior: str | None = None,
    out: str | Path | None = None,
    **parameters: float,
) -> Measured:
    """Build a mechanism's exact channel, and its loss curve.

    Args:
        mechanism: A short name: global, geometric, designed, adj, local, bucket, grr, piecewise.
        lower: L of the domain.
        upper: R of the domain.
        most: Maximum loss between any two values of a designed channel.
        cost: Cost whose expectation a designed channel minimises: absolute or squared.
        prior: Weights of all values for a designed channel, separated by commas. Default: even.
        out: A new file for a designed channel's table.
        parameters: ``epsilon`` and other parameters of the mechanism: ``theta``, ``alpha``,
            ``buckets``; those of other mechanisms are ignored.

    Raises:
        ConfigError: A name is unknown, or a value is out of range.
    """
    if mechanism not in {*_MECHANISMS, "designed"}:
        names = ", ".join([*_MECHANISMS, "designed"])
        raise ConfigError(f"There is no mechanism {mechanism}.", f"Choose one of {names}.")
    all_parameters = {name for kind in _MECHANISMS.values() for name in kind.model_fields} - {
        "name"
    }
    if unknown := sorted(parameters.keys() - all_parameters):
        names = ", ".join(sorted(all_parameters))
        raise ConfigError(
            f"No mechanism has a parameter {', '.join(unknown)}.", f"Choose from {names}."
        )
    domain = Domain(lower, upper)
    if problem := domain.size_problem():
        raise ConfigError(f"The domain {problem}.", "Choose --lower and --upper closer together.")
    parameters = {"epsilon": 1.0, **parameters}
    designed: dict[str, Any] = {}
    if mechanism == "designed":
        file = None if out is None else Path(out)
        built, designed = _designed(domain, parameters["epsilon"], most, cost, prior, file)
    else:
        kind = _MECHANISMS[mechanism]
        arguments = {name: parameters[name] for name in kind.model_fields if name in parameters}
        try:
            built = kind(**arguments)
        except ValidationError as error:
            faults = entry_faults(kind, arguments, error.errors())
            require_none(faults, mechanism)
            raise
    return Measured(built.channel(domain), loss_curve(built, domain), designed)


def _designed(
    domain: Domain,
    epsilon: float,
    most: float | None,
    cost: Cost,
    prior: str | None,
    out: Path | None,
) -> tuple[Designed, dict[str, Any]]:
    if most is None:
        raise ConfigError(
            "A designed channel needs the maximum loss between any two values.", "Pass --most."
        )
    if not all(isinstance(a, Real) and LEAST_EPSILON <= a <= 1000 for a in (epsilon, most)):
        raise ConfigError(f"--epsilon and --most must be from {LEAST_EPSILON:g} to 1000.")
    if cost not in ("absolute", "squared"):
        raise ConfigError(f"There is no cost {cost}.", "Choose one of absolute, squared.")
    if out is not None and out.exists():
        raise ConfigError(
            f"{out.name} exists already, and channels are never replaced.", "Name a new file."
        )
    result = design(domain, epsilon, most, cost, _weights(prior))
    if result is None:
        linear = min(epsilon, most / (domain.size - 1))
        raise ConfigError(
            "No exact table with these losses is useful.",
            f"Declare the geometric mechanism at epsilon {linear:.6g}, which has these losses.",
        )
    table = result.mechanism.table
    assert isinstance(table, Table)
    costs = {"programme": result.least, "channel": result.expected}
    weights = {"prior": prior or "even"}
    about = {"epsilon": epsilon, "most": most, "cost": cost, **weights, "expected_cost": costs}
    if out is not None:
        out.write_text(table_text(table, about), encoding="utf-8")
    declared = {"name": "designed", "epsilon": epsilon, "most": most}
    return result.mechanism, {
        "expected_cost": costs,
        "table_digest": table_digest(table),
        "declaration": {**declared, "table": out.name if out else "FILE"},
        **weights,
    }


def _weights(prior: str | None) -> list[float] | None:
    if prior is None:
        return None
    try:
        return [float(weight) for weight in prior.split(",")]
    except ValueError:
        raise ConfigError("--prior is not a list of numbers.", "For example 1,2,4,2,1.") from None

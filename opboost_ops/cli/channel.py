"""`opboost channel`: a mechanism's exact table, and what it costs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from opboost_ops.errors import ConfigError

if TYPE_CHECKING:
    from opboost_ops.domain import Domain
    from opboost_ops.mechanisms import Designed
    from opboost_ops.privacy.design import Cost


def command(
    mechanism: Annotated[
        str,
        typer.Argument(help="global, geometric, designed, adj, local, bucket, grr or piecewise"),
    ],
    lower: Annotated[int, typer.Option(help="L of the domain.")] = 1,
    upper: Annotated[int, typer.Option(help="R of the domain.")] = 10,
    epsilon: Annotated[float, typer.Option(help="Nominal loss.")] = 1.0,
    theta: Annotated[int, typer.Option(help="Length of a partition (adj, local).")] = 2,
    alpha: Annotated[float, typer.Option(help="Share of the budget (adj).")] = 1.0,
    buckets: Annotated[int, typer.Option(help="How many (bucket).")] = 4,
    most: Annotated[
        float | None, typer.Option(help="Loss between any two values (designed).")
    ] = None,
    cost: Annotated[str, typer.Option(help="absolute or squared (designed).")] = "absolute",
    prior: Annotated[
        str | None,
        typer.Option(help="Weights of all values, with commas; even when absent (designed)."),
    ] = None,
    prior_run: Annotated[
        str | None,
        typer.Option(help="Estimate the prior from this run's releases, at the label holder."),
    ] = None,
    prior_of: Annotated[
        str | None, typer.Option(help="Of which released column, as party.column (designed).")
    ] = None,
    federation: Annotated[
        Path | None, typer.Option(help="federation.yaml of that run (designed).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A new file that keeps the table (designed).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line on stdout.")] = False,
) -> None:
    """Print probabilities, counts out of 2^64, the loss curve, and whether it is certified."""
    import json

    from pydantic import ValidationError

    from opboost_ops import mechanisms
    from opboost_ops.cli.earlier_runs import estimated_prior
    from opboost_ops.domain import Domain
    from opboost_ops.privacy.loss import loss_curve

    given: dict[str, Any] = {"epsilon": epsilon}
    known: dict[str, tuple[type[Any], dict[str, Any]]] = {
        "global": (mechanisms.GlobalMap, given),
        "geometric": (mechanisms.Geometric, given),
        "adj": (mechanisms.AdjMap, {**given, "theta": theta, "alpha": alpha}),
        "local": (mechanisms.LocalMap, {**given, "theta": theta}),
        "bucket": (mechanisms.BucketResponse, {**given, "buckets": buckets}),
        "grr": (mechanisms.GeneralisedResponse, given),
        "piecewise": (mechanisms.Piecewise, given),
    }
    if mechanism not in {*known, "designed"}:
        names = ", ".join([*known, "designed"])
        raise ConfigError(f"There is no mechanism {mechanism}.", f"Known are {names}.")
    domain = Domain(lower, upper)
    if excess := domain.excess():
        raise ConfigError(f"The domain {excess}.", "Bring --lower and --upper nearer together.")
    made: dict[str, Any] = {}
    estimated = estimated_prior(federation, prior_run, prior_of, domain)
    if estimated is not None and (mechanism != "designed" or prior is not None):
        raise ConfigError(
            "A prior of an earlier run is for designed channels, instead of --prior.",
            "Give one of them.",
        )
    if mechanism == "designed":
        chosen, made = _designed(domain, epsilon, most, cost, estimated or (prior, None), out)
    else:
        kind, parameters = known[mechanism]
        try:
            chosen = kind(**parameters)
        except ValidationError as error:
            names = ", ".join(".".join(map(str, fault["loc"])) for fault in error.errors())
            raise ConfigError(f"{mechanism}: {names} is out of range.") from None
    channel, curve = chosen.channel(domain), loss_curve(chosen, domain)
    result = {
        "mechanism": curve.mechanism,
        "inputs": channel.inputs.tolist(),
        "outputs": channel.outputs.tolist(),
        "probabilities": channel.probabilities().tolist(),
        "counts": [[str(count) for count in row] for row in channel.counts],
        "loss": list(curve.loss),
        "certificate": curve.certificate,
        **made,
    }
    if as_json:
        print(json.dumps(result))
        return
    print(f"{curve.mechanism} on [{lower}, {upper}]")
    print("Pr[y | x], a row an input:")
    for x, row in zip(channel.inputs, channel.probabilities(), strict=True):
        print(f"{x:>6} " + " ".join(f"{p:.4f}" for p in row))
    for t, loss in enumerate(curve.loss, start=1):
        print(f"loss({t}) = {loss if isinstance(loss, str) else f'{loss:.4f}'}")
    print(f"loss(t) <= t epsilon {'holds' if curve.certificate else 'does not hold'}")
    if made:
        found = made["expected_cost"]
        print(
            f"Expected {cost} cost {found['channel']:.6g}, of the linear programme "
            f"{found['programme']:.6g}."
        )
        if estimated is not None:
            print(f"Prior {made['prior_from']}: {made['prior']}")
        if out is not None:
            print(f"Beside federation.yaml: {out}\nmechanism: {json.dumps(made['declaration'])}")


def _designed(
    domain: "Domain",
    epsilon: float,
    most: float | None,
    cost: str,
    prior_from: tuple[str | None, str | None],
    out: Path | None,
) -> "tuple[Designed, dict[str, Any]]":
    from opboost_ops.config.channel_files import table_digest, table_text
    from opboost_ops.mechanisms.designed import Table
    from opboost_ops.mechanisms.geometric import LEAST_EPSILON
    from opboost_ops.privacy.design import design

    if most is None:
        raise ConfigError(
            "A designed channel needs the loss between any two values.", "Give it with --most."
        )
    if not all(LEAST_EPSILON <= loss <= 1000 for loss in (epsilon, most)):
        raise ConfigError(f"--epsilon and --most must be of {LEAST_EPSILON:g} to 1000.")
    if cost not in ("absolute", "squared"):
        raise ConfigError(f"There is no cost {cost}.", "Known are absolute, squared.")
    if out is not None and out.exists():
        raise ConfigError(
            f"{out.name} is there already: a channel is made once, and kept.", "Name a new file."
        )
    prior, source = prior_from
    found = design(domain, epsilon, most, cast("Cost", cost), _weights(prior))
    if found is None:
        linear = min(epsilon, most / (domain.size - 1))
        raise ConfigError(
            "No table of this curve is exact and tells anything.",
            f"Declare the geometric mechanism at epsilon {linear:.6g}, which keeps it.",
        )
    table = found.mechanism.table
    assert isinstance(table, Table)
    costs = {"programme": found.least, "channel": found.expected}
    priors = {"prior": prior or "even", **({"prior_from": source} if source else {})}
    about = {"epsilon": epsilon, "most": most, "cost": cost, **priors, "expected_cost": costs}
    if out is not None:
        out.write_text(table_text(table, about), encoding="utf-8")
    declared = {"name": "designed", "epsilon": epsilon, "most": most}
    return found.mechanism, {
        "expected_cost": costs,
        "table_digest": table_digest(table),
        "declaration": {**declared, "table": out.name if out else "FILE"},
        **priors,
    }


def _weights(prior: str | None) -> list[float] | None:
    if prior is None:
        return None
    try:
        return [float(weight) for weight in prior.split(",")]
    except ValueError:
        raise ConfigError("--prior is no list of numbers.", "For example 1,2,4,2,1.") from None

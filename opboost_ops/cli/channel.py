"""`opboost channel`: a mechanism's exact table, and what it costs."""

from typing import Annotated, Any

import typer

from opboost_ops.errors import ConfigError


def command(
    mechanism: Annotated[
        str, typer.Argument(help="global, geometric, adj, local, bucket, grr or piecewise")
    ],
    lower: Annotated[int, typer.Option(help="L of the domain.")] = 1,
    upper: Annotated[int, typer.Option(help="R of the domain.")] = 10,
    epsilon: Annotated[float, typer.Option(help="Nominal loss.")] = 1.0,
    theta: Annotated[int, typer.Option(help="Length of a partition (adj, local).")] = 2,
    alpha: Annotated[float, typer.Option(help="Share of the budget (adj).")] = 1.0,
    buckets: Annotated[int, typer.Option(help="How many (bucket).")] = 4,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line on stdout.")] = False,
) -> None:
    """Print probabilities, counts out of 2^64, the loss curve, and whether it is certified."""
    import json

    from pydantic import ValidationError

    from opboost_ops import mechanisms
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
    if mechanism not in known:
        raise ConfigError(f"There is no mechanism {mechanism}.", f"Known are {', '.join(known)}.")
    kind, parameters = known[mechanism]
    try:
        chosen = kind(**parameters)
    except ValidationError as error:
        names = ", ".join(".".join(map(str, fault["loc"])) for fault in error.errors())
        raise ConfigError(f"{mechanism}: {names} is out of range.") from None
    domain = Domain(lower, upper)
    if excess := domain.excess():
        raise ConfigError(f"The domain {excess}.", "Bring --lower and --upper nearer together.")
    channel, curve = chosen.channel(domain), loss_curve(chosen, domain)
    result = {
        "mechanism": curve.mechanism,
        "inputs": channel.inputs.tolist(),
        "outputs": channel.outputs.tolist(),
        "probabilities": channel.probabilities().tolist(),
        "counts": [[str(count) for count in row] for row in channel.counts],
        "loss": list(curve.loss),
        "certificate": curve.certificate,
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

"""`opboost channel`: a mechanism's exact table, and what it costs."""

from pathlib import Path
from typing import Annotated, cast

import typer

from opboost_ops.cli.arguments import AsJson


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
        typer.Option(help="Weights of all values, with commas; default: even (designed)."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A new file for the table (designed).")] = None,
    as_json: AsJson = False,
) -> None:
    """Print a mechanism's probabilities, counts out of 2^64, and certified loss curve."""
    import json

    from opboost_ops import api
    from opboost_ops.privacy.design import Cost

    measured = api.channel(
        mechanism,
        lower,
        upper,
        most=most,
        cost=cast(Cost, cost),
        prior=prior,
        out=out,
        epsilon=epsilon,
        theta=theta,
        alpha=alpha,
        buckets=buckets,
    )
    channel, curve, design = measured.channel, measured.curve, measured.design
    if as_json:
        print(json.dumps(measured.document()))
        return
    print(f"{curve.mechanism} on [{lower}, {upper}]")
    print("Pr[y | x], a row an input:")
    for x, row in zip(channel.inputs, channel.probabilities(), strict=True):
        print(f"{x:>6} " + " ".join(f"{p:.4f}" for p in row))
    for t, loss in enumerate(curve.loss, start=1):
        print(f"loss({t}) = {loss if isinstance(loss, str) else f'{loss:.4f}'}")
    print(f"loss(t) <= t epsilon {'holds' if curve.certificate else 'does not hold'}")
    if design:
        expected = design["expected_cost"]
        print(
            f"Expected {cost} cost {expected['channel']:.6g}, of the linear programme "
            f"{expected['programme']:.6g}."
        )
        if out is not None:
            print(f"Beside federation.yaml: {out}\nmechanism: {json.dumps(design['declaration'])}")

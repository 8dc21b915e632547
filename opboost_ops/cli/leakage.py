"""`opboost leakage`: attacks that a party runs on its own release before it makes it."""

from typing import TYPE_CHECKING, Annotated

import typer

from opboost_ops.cli.arguments import AsJson, FederationFile
from opboost_ops.errors import ContractError

if TYPE_CHECKING:
    from opboost_ops.extras.lab.attacks import Attacked


def command(
    federation: FederationFile,
    party: Annotated[str | None, typer.Option(help="The feature holder.")] = None,
    gate: Annotated[
        float | None, typer.Option(help="Fail if an attack gains more than this share of rows.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Attack a party's next release; report and picture stay in its home."""
    import json

    from opboost_ops import api

    attacked = api.leakage(federation, party)
    if as_json:
        print(json.dumps(attacked.document()))
    else:
        _show(attacked)
    name, worst = attacked.found.worst
    if gate is not None and worst.gain > gate:
        raise ContractError(
            f"The attack {worst.name} on {name} gains {worst.gain:.3f}, above the gate of {gate}.",
            "Declare a smaller epsilon or another mechanism; `opboost plan` ranks them.",
        )


def _show(attacked: "Attacked") -> None:
    from opboost_ops.cli.output.printing import print_line, print_table
    from opboost_ops.privacy.consent.exposure import share_words

    result = attacked.found
    heads = ("column", "attack", "success", "95 % interval", "without release", "verdict")
    rows = (
        (name, attack.name, f"{attack.success:.3f}", f"{attack.low:.3f} to {attack.high:.3f}",
         f"{attack.baseline:.3f}", attack.verdict)
        for name, tried in result.columns.items()
        for attack in tried
    )  # fmt: skip
    print_table(f"{attacked.party}: attacks on the release it would make now", heads, rows)
    stated = [
        (name, guess.values, *(share_words(rate) if rate else "" for rate in rates))
        for name, guess in result.stated.items()
        for rates in [(guess.after, guess.of_two, guess.of_three)]
    ]
    priors = ("column", "values", "all equally likely", "of two, at worst", "of three, at worst")
    print_table("Guessed right, as the consent sheet states it", priors, stated)
    for name, curves in result.averaging.items():
        first, last = curves.pinned[0].success, curves.pinned[-1].success
        print_line(
            f"{name}: averaging {len(curves.pinned)} retrainings places {last:.3f} of the rows, "
            f"after {first:.3f} with one; fresh noise would let it place "
            f"{curves.fresh[-1].success:.3f}."
        )
    linked = result.linked
    print(f"Linking two receivers' rows: {linked.success:.3f}, {linked.verdict}.")
    print(f"Report and picture stay at home: {attacked.picture}")

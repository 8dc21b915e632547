"""`opboost verify`: check the promises with a second implementation, on the files at hand."""

import json
from typing import Annotated

import typer

from opboost_ops.cli.arguments import AsJson


def command(
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="PLACE...", help="A federation's folder, a party's folder, or a store's."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Verify the files of finished runs with a second implementation of the promises.

    Exits with 0 if nothing is broken, 1 if a promise is broken, 2 if a place cannot be read.
    """
    from opboost_ops.verifier import CannotBeginError, verify

    try:
        outcomes = verify(places)
    except CannotBeginError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from None
    if as_json:
        print(json.dumps([outcome.to_json() for outcome in outcomes], indent=1))
    else:
        for outcome in outcomes:
            print("\n".join(outcome.lines()))
    raise typer.Exit(1 if any(outcome.is_broken for outcome in outcomes) else 0)

"""`opboost bounds`: what is public about columns, from a table that people fill in."""

from opboost_ops.cli.arguments import FederationFile


def command(federation: FederationFile) -> None:
    """Write bounds, categories and fills of the filled-in bounds.csv into federation.yaml.

    A line without any of them is skipped. Categories are separated by |. Parties that have agreed
    already must agree again. Categories that are not listed count as the one under `rest`.
    """
    from opboost_ops import api

    done = api.bounds(federation)
    print(
        f"{done.filled} of {done.lines} lines are in {done.file}. Next: opboost check "
        f"{done.file.parent}"
    )

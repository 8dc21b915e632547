"""`opboost bounds`: what is public about columns, from a table that people fill in."""

from opboost_ops.cli.arguments import Site


def command(site: Site) -> None:
    """Write bounds, categories and fills of the filled-in bounds.csv into the party's offer.

    A line without any of them is skipped. Categories are separated by |. Categories that are not
    listed count as the one under `rest`.
    """
    from opboost_ops import api

    done = api.bounds(site)
    print(f"{done.filled} of {done.lines} lines are in {done.file}. It is public: send it.")

"""`opboost bounds`: what is public about columns, from a table that people fill in."""

from shlex import quote

from opboost_ops.cli.arguments import Site


def command(site: Site) -> None:
    """Write the completed bounds.csv into the party's offer.

    Separate categories by | or commas; those that are not listed count as the one under `rest`.
    Write dates as 2020-01-31 or 31.01.2020. The scale `private 0.1` draws a column's edges from the
    party's own table within its bounds, and charges them at that epsilon.
    """
    from opboost_ops import api

    done = api.bounds(site)
    print(f"{done.filled} of {done.lines} lines are in {done.file}.")
    for name, epsilon in done.private.items():
        print(f"{name}: private edges at epsilon {epsilon:g}, charged once to its account.")
    if not done.missing:
        print("It is public: send it.")
        return
    print("Still blank, and needed:")
    for line in done.missing:
        print(f"  {line}")
    print(f"Fill them in, then again: opboost bounds {quote(str(site))}")

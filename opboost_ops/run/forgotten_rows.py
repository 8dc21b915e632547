"""A forgotten person's rows in the copies that runs have made of a party's sources."""

from collections.abc import Collection
from pathlib import Path

import polars as pl

from opboost_ops.config.policy import Policy
from opboost_ops.config.site import Site
from opboost_ops.exchange.party_state import agreements_of
from opboost_ops.scratch.files import whole_file
from opboost_ops.stages.stage import COPY


def remove_rows(site: Site, policy: Policy, people: Collection[str | int]) -> tuple[str, ...]:
    """Write every copy again without a person's rows.

    A run that is under way ends by that, as it does when anybody is forgotten: its table is another
    one now.

    Args:
        site: The party's.
        policy: The party's.
        people: The person's ID, in each type that IDs have.

    Returns:
        Federations of whose copies rows were removed.

    Raises:
        OSError: A copy cannot be written.
    """
    found = []
    for agreed in agreements_of(site).agreements:
        declared = agreed.content["federation"]["id"]["column"]
        column = policy.raw_column(declared, declared).strip()
        theirs = {str(person) for person in people}
        copies = sorted(site.home.glob(f"{agreed.federation}/*/{COPY}"))
        removed = [copy for copy in copies if _removed(copy, column, theirs)]
        if removed:
            found.append(agreed.federation)
    return tuple(dict.fromkeys(found))


def _removed(copy: Path, column: str, people: Collection[str]) -> bool:
    scan = pl.scan_parquet(copy)
    names = {name.strip(): name for name in scan.collect_schema().names()}
    if column not in names:
        return False
    theirs = pl.col(names[column]).cast(pl.String).is_in(list(people)).fill_null(False)
    if not scan.filter(theirs).select(names[column]).collect(engine="streaming").height:
        return False
    with whole_file(copy) as file:
        scan.filter(~theirs).sink_parquet(file, compression="zstd")
    return True

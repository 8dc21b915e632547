"""A party's first files, and the federation file that offers make."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from opboost_ops.extras.setup import bounds as bounds_table
from opboost_ops.extras.setup.federation_file import Federated
from opboost_ops.extras.setup.federation_file import federate as join_offers
from opboost_ops.extras.setup.offers import init as init
from opboost_ops.extras.setup.private_edges import EdgesWritten, take_in, write_private_edges


def bounds(site: str | Path) -> bounds_table.FilledIn:
    """Write a party's completed ``bounds.csv`` into its offer; draw the private edges in it.

    Args:
        site: Folder of the party's ``site.yaml``.

    Raises:
        ConfigError: All faults of the table at once; nothing was written.
    """
    return take_in(Path(site))


def private_edges(
    site: str | Path,
    epsilon: float,
    columns: Mapping[str, int] | None = None,
    federation: str | Path | None = None,
    number: int = 1,
) -> EdgesWritten:
    """Draw private edges from a party's own table, charge them, and write them into its file.

    Args:
        site: Folder of the party's ``site.yaml``.
        epsilon: Of each column, for a person who is added, removed or replaced.
        columns: How many cells, by feature; when absent, the domain's for every numeric column
            that is not declared boolean.
        federation: The ``federation.yaml``; the party's offer when absent.
        number: Of the draw, from 1; another one draws, and costs, again.

    Raises:
        OpBoostError: A column takes no edges, the policy or a budget does not allow them, or the
            table cannot be read; nothing was drawn or written.
    """
    file = None if federation is None else Path(federation)
    return write_private_edges(Path(site), epsilon, columns, file, number)


def federate(offers: Sequence[str | Path], file: str | Path = "federation.yaml") -> Federated:
    """Write a federation file from the parties' offers.

    Args:
        offers: The parties' offers, or the folders of parties that are here. What their offers
            still leave blank is taken from their ``bounds.csv``.
        file: The ``federation.yaml``; one that is there keeps what no offer says.

    Raises:
        ConfigError: With all faults; nothing was written.
    """
    return join_offers([Path(offer) for offer in offers], Path(file))

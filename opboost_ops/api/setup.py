"""The files of a new federation."""

from collections.abc import Callable, Mapping
from pathlib import Path

from opboost_ops.run.party_sites import federation_file
from opboost_ops.setup import bounds as bounds_table
from opboost_ops.setup.draft import Drafted, draft_federation


def init(
    folder: str | Path,
    tables: Mapping[str, str | Path],
    label: str,
    identity: str | Mapping[str, str],
    *,
    public_id: str | None = None,
    name: str = "federation",
    epsilon: float = 1.0,
    policies: Mapping[str, Path] | None = None,
    queries: Mapping[str, str] | None = None,
    positive: str | None = None,
    ask: Callable[[str, list[str]], str | None] | None = None,
) -> Drafted:
    """Write the files of a new federation from the parties' tables.

    Args:
        folder: A new or empty folder.
        tables: By party: a Parquet or CSV file, a pattern, a URL, or ``env:NAME`` of one.
        label: The label as ``party.column``.
        identity: The column that names a person; by party where it differs.
        public_id: Its name in the federation file, where it differs.
        name: Of the federation.
        epsilon: Of every protected feature.
        policies: By party, a ``policy.yaml`` that pins columns of its table already.
        queries: By party, what a database is asked.
        positive: Which of two classes of the label is the positive one.
        ask: Returns the positive class of a label, by its name and classes.

    Raises:
        ConfigError: All faults of the tables at once; nothing was written.
    """
    own = dict.fromkeys(tables, identity) if isinstance(identity, str) else identity
    return draft_federation(
        Path(folder),
        {party: str(at) for party, at in tables.items()},
        label,
        own,
        public_id=public_id,
        name=name,
        epsilon=epsilon,
        policies=policies,
        queries=queries,
        positive=positive,
        ask=ask,
    )


def bounds(federation: str | Path) -> bounds_table.FilledIn:
    """Write the filled-in ``bounds.csv`` of a federation into its ``federation.yaml``.

    Args:
        federation: The folder or file of the federation, or the table itself.

    Raises:
        ConfigError: All faults of the table at once; nothing was written.
    """
    path = Path(federation)
    if path.suffix != ".csv":
        path = federation_file(path).with_name(bounds_table.TEMPLATE)
    return bounds_table.fill_in(path)

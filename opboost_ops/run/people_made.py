"""What IDs and aggregates make of the parties' tables: told at home, and nowhere else."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from opboost_ops.config.federation import Purpose
from opboost_ops.config.source import Source
from opboost_ops.errors import OpBoostError
from opboost_ops.run.site_faults import Parties
from opboost_ops.stages.people import PEOPLE
from opboost_ops.stages.sources import borrowed
from opboost_ops.stages.stage import table_of

_PURPOSES: tuple[Purpose, ...] = ("train", "score")


def people_made(parties: Parties) -> dict[str, dict[Purpose, Mapping[str, Any]]]:
    """Counts, and numbers of rows, of tables whose IDs are made or whose rows are aggregated.

    Args:
        parties: Context and folder of ``site.yaml`` of each party.

    Returns:
        By party and table, as `stages.people.write_ids` says; without those that cannot be read.
    """
    found: dict[str, dict[Purpose, Mapping[str, Any]]] = {}
    for party, (context, _) in parties.items():
        for purpose in _PURPOSES:
            one = replace(context, purpose=purpose)
            try:
                federation = one.federation
                if not isinstance(
                    table_of(one.site, federation.name, federation.id, purpose), Source
                ):
                    continue
                with borrowed(one) as lent:
                    if lent.home.has(PEOPLE):
                        found.setdefault(party, {})[purpose] = lent.home.json(PEOPLE)
            except OpBoostError:
                continue
    return found

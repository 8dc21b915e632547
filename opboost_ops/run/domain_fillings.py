"""How a party's columns fill their domains: reported at home before a release, and nowhere else."""

from dataclasses import replace

from opboost_ops.errors import OpBoostError
from opboost_ops.quality.domain_filling import Filling, filling
from opboost_ops.stages import raw_table
from opboost_ops.stages.raw_blocks import whole_table
from opboost_ops.stages.sources import borrowed
from opboost_ops.stages.stage import Context


def domain_fillings(context: Context) -> list[Filling]:
    """How the protected numbers of a feature holder's training table fill their domains.

    Args:
        context: The party's; one whose table cannot be read has none, which others say.
    """
    party = context.federation.parties[context.party]
    if party.role != "feature_holder" or context.federation.learning == "horizontal":
        return []
    domain = context.federation.domain.to_domain()
    found = []
    try:
        with borrowed(replace(context, purpose="train")) as lent:
            for name, feature in party.features.items():
                if feature.type != "nominal":
                    column = whole_table(lent, [name]).get_column(name)
                    found.append(filling(name, raw_table.numbers(column, feature), feature, domain))
    except OpBoostError:
        return []
    return found

"""What a party may count and watch over time: numbers made of public facts alone.

Each is told where the party's own worker is told to (`orchestration/deployment/metrics.py`); none
depends on a cell, an ID or a count that stays at home.
"""

import logging
from collections.abc import Callable, Iterator
from datetime import datetime

from opboost_ops.config.federation import Federation
from opboost_ops.learning.registry.registry import Registry
from opboost_ops.pipeline.party import upcoming_limits
from opboost_ops.pipeline.runner.publication import Publisher

_LOG = logging.getLogger("opboost_ops")

#: Is called with a fact's name and value.
Tell = Callable[[str, float], None]

#: Releases that fit into the first budget to end, by the party's policy.
RELEASES = "releases_left"

#: When the model in use was decided on, in seconds since 1970.
CHAMPION = "champion_since"

#: Bytes that this stage has published, as the manifests in the store state them.
BYTES = "published_bytes_total"

#: By name, whether values are added up or the last one counts.
ADDED = {RELEASES: False, CHAMPION: False, BYTES: True}


def tell(fact: Tell, party: Publisher, federation: Federation, stage: str, published: int) -> None:
    """Tell what there is to tell after a stage; that it cannot be told does not undo the stage.

    Args:
        fact: Is told.
        party: Whose.
        federation: The plan's.
        stage: Its name.
        published: Bytes that it has published.
    """
    try:
        for name, value in _after(party, federation, stage, published):
            fact(name, value)
    except Exception as error:
        _LOG.warning("facts of %s could not be sent (%s)", stage, type(error).__name__)


def _after(
    party: Publisher, federation: Federation, stage: str, published: int
) -> Iterator[tuple[str, float]]:
    if published:
        yield BYTES, published
    if published or stage == upcoming_limits.STAGE:
        left = upcoming_limits.releases_left(party, federation)
        if left is not None:
            yield RELEASES, left
    if stage in (upcoming_limits.STAGE, "announce_champion"):
        since = champion_since(Registry(party.site.models, federation.name))
        if since is not None:
            yield CHAMPION, since


def champion_since(registry: Registry) -> float | None:
    """When the model in use was decided on, in seconds since 1970; None where there is none.

    Args:
        registry: The party's.
    """
    champion = registry.champion()
    decided = [one.at for one in registry.history() if one.version == champion]
    return datetime.fromisoformat(decided[-1]).timestamp() if decided else None

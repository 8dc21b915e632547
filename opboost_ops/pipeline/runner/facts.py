"""Facts that a party may count and watch over time: durations, bytes, and public numbers.

`tell` sends facts after a stage to where the party's own worker is told to send them
(`orchestration/deployment/metrics.py`); none of them depends on a cell, an ID or a count that stays
at home. `note` keeps the seconds of a stage in the run's home, and `artifact_sizes` measures a
finished run for its label holder.
"""

import json
import logging
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import load_site
from opboost_ops.exchange.artifact import Artifact
from opboost_ops.exchange.kinds import KINDS
from opboost_ops.exchange.manifest import parse_manifest
from opboost_ops.exchange.store.store import Store, open_store
from opboost_ops.learning.registry.registry import Registry
from opboost_ops.pipeline.party import site_faults
from opboost_ops.pipeline.runner.publication import Publisher
from opboost_ops.pipeline.stage import Home

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

#: Folder of a run's home with a file a stage.
TIMINGS = "timings"


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
        for name, value in _facts_after(party, federation, stage, published):
            fact(name, value)
    except Exception as error:
        _LOG.warning("facts of %s could not be sent (%s)", stage, type(error).__name__)


def _facts_after(
    party: Publisher, federation: Federation, stage: str, published: int
) -> Iterator[tuple[str, float]]:
    if published:
        yield BYTES, published
    if published or stage == site_faults.STAGE:
        left = site_faults.releases_left(party, federation)
        if left is not None:
            yield RELEASES, left
    if stage in (site_faults.STAGE, "announce_champion"):
        since = champion_since(Registry(party.site.models, federation.name))
        if since is not None:
            yield CHAMPION, since


def champion_since(registry: Registry) -> float | None:
    """When the model in use was decided on, in seconds since 1970; None where there is none.

    Args:
        registry: The party's.
    """
    champion = registry.champion()
    decided = [entry.at for entry in registry.history() if entry.version == champion]
    return datetime.fromisoformat(decided[-1]).timestamp() if decided else None


def processor() -> float:
    """Seconds of the processor: of this process, and of those that it has started and awaited."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def note(home: Home, stage: str, spent: Mapping[str, float]) -> None:
    """Keep what a stage took.

    Args:
        home: The party's, of the run.
        stage: Its name.
        spent: Seconds, by what they were spent on.
    """
    rounded = {what: round(seconds, 6) for what, seconds in spent.items()}
    home.write_json(f"{TIMINGS}/{stage}", rounded)


def spent_by(site_file: Path, federation: str, run: str) -> dict[str, dict[str, float]]:
    """The time that each stage of a party took in a run.

    Args:
        site_file: The party's ``site.yaml``.
        federation: Name of the federation.
        run: The run's id.

    Returns:
        ``seconds`` and ``processor_seconds`` without data quality, which is ``quality_seconds``
        and ``quality_processor_seconds``, and what else a stage says, by stage.
    """
    folder = load_site(site_file).home / federation / run / TIMINGS
    return {path.stem: json.loads(path.read_bytes()) for path in sorted(folder.glob("*.json"))}


def artifact_sizes(site: Path, federation: str, run: str) -> dict[str, Any]:
    """Bytes that crossed the exchange in a run, manifests and signatures included.

    Args:
        site: The label holder's ``site.yaml``.
        federation: Name of the federation.
        run: A finished run.

    Returns:
        Bytes by artifact; ``feature_holders_total`` (training releases and split answers);
        ``align``, and routes of held-out rows, ``holdout``, apart; ``ranks_entropy``, the entropy
        of the ranks in bytes, and ``ranked``, how many columns of ranks there are.
    """
    own = load_site(site)
    store = open_store(own.store)
    result: dict[str, Any] = {"artifacts": {}}
    totals = {"feature_holders_total": 0, "align": 0, "holdout": 0}
    for place in store.list(f"{federation}/{run}"):
        artifact = read_artifact(store, place)
        result["artifacts"]["/".join(place.split("/")[2:])] = artifact.size
        if total := KINDS[artifact.manifest.kind].total:
            totals[total] += artifact.size
    # In the store they may be encrypted; the label holder's frame holds them as they were sent.
    home = Home(own.home / federation / run)
    frame = home.table("frame")
    entropy = sum(
        _entropy(frame.column(name).drop_null().to_numpy()) for name in home.json("frame")["ranked"]
    )
    ranked = len(home.json("frame")["ranked"])
    return {**result, **totals, "ranks_entropy": round(entropy, 1), "ranked": ranked}


def _entropy(values: np.ndarray) -> float:
    counts = np.bincount(values)
    counts = counts[counts > 0]
    shares = counts / counts.sum()
    return float(-(counts * np.log2(shares)).sum() / 8)


def read_artifact(store: Store, place: str) -> Artifact:
    """An artifact as it lies in the store, unverified: for reports alone."""
    files = store.get(place)
    assert files is not None
    return Artifact(parse_manifest(files["manifest.json"], place), files)

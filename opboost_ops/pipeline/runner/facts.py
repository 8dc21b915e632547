"""Facts that a party may monitor over time: durations, bytes and public numbers.

`tell` sends facts after a stage to the metrics backend of the party's own worker
(`orchestration/deployment/metrics.py`); no fact depends on a cell, an ID or a private count. `note`
stores a stage's durations in the run's home, and `artifact_sizes` measures a finished run for its
label holder.
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
from opboost_ops.pipeline.party.local_party import LocalParty
from opboost_ops.pipeline.stage import Home

_LOG = logging.getLogger("opboost_ops")

#: Callback for a fact's name and value.
Tell = Callable[[str, float], None]

#: Number of releases that fit into the budget with the least room.
RELEASES = "releases_left"

#: Time of the decision on the current champion, Unix seconds.
CHAMPION = "champion_since"

#: Bytes published by this stage, according to the manifests in the store.
BYTES = "published_bytes_total"

#: Facts by name: True for counters, which add up, False for gauges.
ADDED = {RELEASES: False, CHAMPION: False, BYTES: True}

#: Folder in a run's home with one file per stage.
TIMINGS = "timings"


def tell(fact: Tell, party: LocalParty, federation: Federation, stage: str, published: int) -> None:
    """Send the facts after a stage; a failure to send is logged and does not fail the stage.

    Args:
        fact: Callback for each fact.
        party: The party.
        federation: The plan's federation.
        stage: Name of the stage.
        published: Bytes that the stage has published.
    """
    try:
        for name, value in _facts_after(party, federation, stage, published):
            fact(name, value)
    except Exception as error:
        _LOG.warning("facts of %s could not be sent (%s)", stage, type(error).__name__)


def _facts_after(
    party: LocalParty, federation: Federation, stage: str, published: int
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
    """Return the time of the decision on the champion, Unix seconds; None without a champion.

    Args:
        registry: The party's registry.
    """
    champion = registry.champion()
    decided = [entry.at for entry in registry.history() if entry.version == champion]
    return datetime.fromisoformat(decided[-1]).timestamp() if decided else None


def processor() -> float:
    """Return CPU seconds of this process and of its finished child processes."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def note(home: Home, stage: str, spent: Mapping[str, float]) -> None:
    """Store the time that a stage took.

    Args:
        home: The party's home of the run.
        stage: Name of the stage.
        spent: Seconds by activity.
    """
    rounded = {what: round(seconds, 6) for what, seconds in spent.items()}
    home.write_json(f"{TIMINGS}/{stage}", rounded)


def spent_by(site_file: Path, federation: str, run: str) -> dict[str, dict[str, float]]:
    """Return the time that each stage of a party took in a run.

    Args:
        site_file: The party's ``site.yaml``.
        federation: Name of the federation.
        run: The run's ID.

    Returns:
        By stage, ``seconds`` and ``processor_seconds`` without data quality, whose times are
        ``quality_seconds`` and ``quality_processor_seconds``, and other times of the stage.
    """
    folder = load_site(site_file).home / federation / run / TIMINGS
    return {path.stem: json.loads(path.read_bytes()) for path in sorted(folder.glob("*.json"))}


def artifact_sizes(site: Path, federation: str, run: str) -> dict[str, Any]:
    """Return the bytes of a run's artifacts, including manifests and signatures.

    Args:
        site: The label holder's ``site.yaml``.
        federation: Name of the federation.
        run: ID of a finished run.

    Returns:
        Bytes by artifact, and the totals ``feature_holders_total`` (training releases and split
        answers), ``align`` and ``holdout`` (routes of held-out rows); ``ranks_entropy``, the
        entropy of the ranks in bytes, and ``ranked``, the number of rank columns.
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
    # Artifacts may be encrypted; the label holder's frame has the ranks as they were sent.
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
    """Read an artifact from the store without verifying it, for reports only."""
    files = store.get(place)
    assert files is not None
    return Artifact(parse_manifest(files["manifest.json"], place), files)

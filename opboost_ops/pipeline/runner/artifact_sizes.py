"""Bytes that crossed the exchange in a run."""

from pathlib import Path
from typing import Any

import numpy as np

from opboost_ops.config.loading import load_site
from opboost_ops.exchange.artifact import Artifact
from opboost_ops.exchange.kinds import KINDS
from opboost_ops.exchange.manifest import parse_manifest
from opboost_ops.exchange.store.store import Store, open_store
from opboost_ops.pipeline.stage import Home


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

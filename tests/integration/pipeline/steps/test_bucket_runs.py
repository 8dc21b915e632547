"""A whole run on buckets: where trees split, and what artifacts, ledger and card say."""

import json
from pathlib import Path

import polars as pl

from opboost_ops.learning.boosters.lightgbm_text import TextModel
from tests.federation import FIRST_RUN, Workspace
from tests.integration.pipeline.scoring_data import BUCKETS, NAME, dataset
from tests.party_state import entries_of

DECLARED = "element-level local DP, per cell, by public edges"


def trained(folder: Path) -> Workspace:
    workspace = Workspace.write(
        folder,
        dataset("binary", buckets=True),
        training={"trees": 20, "depth": 3},
        scoring={"mode": "routed"},
    )
    workspace.plain()
    workspace.all()
    return workspace


def words(workspace: Workspace, feature: str, party: str) -> list[str]:
    """Under which words the artifact, the ledger and the card have a feature's loss."""
    place = workspace.folder / "exchange" / NAME / FIRST_RUN / "ranks" / party / "manifest.json"
    manifest = json.loads(place.read_bytes())
    lines = [r for r in entries_of(workspace, party) if r.feature == feature and r.loss]
    version = workspace.version(FIRST_RUN)
    card = json.loads((version / "card.json").read_bytes())
    told = [line["mechanism"] for line in card["features"] if line["name"] == feature]
    assert told[0] in (version / "card.html").read_text()
    kept = [line.loss.mechanism for line in lines if line.loss]
    assert lines
    return [manifest["losses"][feature]["mechanism"], *kept, *told]


def test_splits_lie_between_buckets_and_all_that_is_made_says_by_which_edges(
    tmp_path: Path,
) -> None:
    workspace = trained(tmp_path / "w")
    model = workspace.version(FIRST_RUN) / "model.txt"
    splits = TextModel.parse(model.read_text()).numeric_splits()
    for party, feature in (("b0", "w"), ("b0", "size"), ("b1", "v")):
        ranks = pl.read_ipc((workspace.home("a") / f"opened-{party}.arrow").read_bytes())
        # With all buckets released, a rank is a bucket, and a split lies where one of them ends.
        assert set(ranks[feature]) == set(range(1, len(BUCKETS[feature]) + 2))
        ends = {edge - 0.5 for edge in BUCKETS[feature]}
        assert set(splits.get(f"{party}.{feature}", ())) <= ends
        assert all(line.endswith(f"({DECLARED})") for line in words(workspace, feature, party))
    assert "b0.w" in splits
    assert not any("local DP" in line or "guarantee" in line
                   for line in words(workspace, "colour", "b1"))  # fmt: skip

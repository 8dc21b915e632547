"""A run of 64 parties, each of whose summaries fits into an XCom."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from opboost_ops.extras.datasets.dataset import Dataset
from opboost_ops.pipeline import redaction
from tests.federation import Workspace

#: What an orchestrator keeps of a task's result; longer ones fail their task.
LIMIT, PARTIES = 2048, 64


def made() -> Dataset:
    """A label holder and feature holders with long names, a feature each."""
    rows = 60
    i = np.arange(rows)
    ids = [f"p{k:05d}" for k in i]
    tables = {"label_holder": pl.DataFrame({"id": ids, "y": (i * 7 % 11 > 5).astype(int)})}
    features: dict[str, dict[str, dict[str, object]]] = {"label_holder": {}}
    for k in range(1, PARTIES):
        name = f"organisation_number_{k:02d}"
        tables[name] = pl.DataFrame({"id": ids, "w": (i * (k % 10 + 1)) % 11 / 10})
        features[name] = {"w": {"bounds": [0, 1]}}
    label = {"column": "y", "task": "binary"}
    return Dataset(
        "credit_scoring", "binary", tables, "label_holder", label, features, 0.2, 8.0, (1, 10)
    )


@pytest.mark.slow
def test_a_run_of_64_parties_ends(tmp_path: Path) -> None:
    options = {"training": {"trees": 60, "depth": 4}, "seed": 0}
    workspace = Workspace.write(tmp_path / "federation", made(), **options)
    summaries = workspace.all()
    assert "label_holder.register" in summaries
    sizes = {step: len(json.dumps(summary)) for step, summary in summaries.items()}
    assert max(sizes.values()) < LIMIT, sizes
    opened = summaries["label_holder.open_rows"]
    # A fifth of the IDs is held out by their hash, so that about 12 of 60 are.
    assert opened["train"] + opened["holdout"] == 60 and 4 <= opened["holdout"] <= 22
    for k in range(1, PARTIES):
        checked = summaries[f"organisation_number_{k:02d}.check_release"]["checks"]
        assert checked["passed"] > 0
        assert checked["failed"] == []


def test_summaries_do_not_grow() -> None:
    many = {f"organisation_number_{k:04d}.feature": k for k in range(4096)}
    told = {
        "published": redaction.digests(["0" * 64] * 4096),
        "splits": redaction.counts(many),
        "checks": redaction.verdicts(dict.fromkeys(many, False)),
    }
    assert len(json.dumps(told)) < LIMIT
    assert told["splits"] == {"names": 4096, "sum": 4095 * 2048}
    assert redaction.digests(["ab" * 32, "cd" * 32]) == ["ab" * 8, "cd" * 8]
    assert redaction.digests(["0" * 64] * 17) != redaction.digests(["0" * 63 + "1"] * 17)
    assert redaction.counts({"a": 2}) == {"a": 2}

"""Who is at some feature holders and not at all of them changes nothing that anybody sees.

With one feature holder, whom the label holder lacks. Digests, and what is under keys, differ; how
many there are and how long they are do not.
"""

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from opboost_ops.extras.datasets.tables import Dataset
from tests.federation import FIRST_RUN, Workspace
from tests.noninterference.observation import Observation, Watch, differences
from tests.noninterference.runs import KINDS, seen

PATTERNS, PEOPLE, TARGETS = 12, 60, 12

_DIGEST = re.compile(rb"[0-9a-f]{12,}")


@pytest.mark.slow
@pytest.mark.parametrize("holders", [1, 2, 3])
def test_nothing_follows_from_who_is_at_some_holders_only(tmp_path: Path, holders: int) -> None:
    written = Workspace.write(tmp_path / "written", _dataset(holders))
    rng = np.random.default_rng(holders)
    first: Observation | None = None
    for number in range(PATTERNS):
        at = rng.random((TARGETS, holders)) < 0.5
        # Nobody is at all of them.
        at[np.arange(TARGETS), rng.integers(0, holders, TARGETS)] = False
        found = _run(written.copy(tmp_path / f"{number}", FIRST_RUN), at, number)
        first = first or found
        assert differences(first, found) == [], at.tolist()
    assert first is not None
    assert any(place.startswith("home/opened-b0") for place in first)
    assert not any(place.startswith("error/") for place in first)


def _run(workspace: Workspace, at: np.ndarray, number: int) -> Observation:
    """What is seen of a run up to the label holder's frame, and what it keeps of it at home."""
    for holder in range(at.shape[1]):
        # Somebody else has the row of a person who is not there, so that all tables are as long.
        others = {f"p{i:03d}": f"x{number:03d}{i:03d}" for i in np.flatnonzero(~at[:, holder])}
        workspace.edit_table(
            f"b{holder}", lambda t, others=others: t.with_columns(pl.col("id").replace(others))
        )

    def work(watch: Watch) -> None:
        assert watch.all("check_frame")

    found = seen(KINDS["training"], workspace, work)
    told = {
        place: f"{len(content)} bytes".encode()
        if place.startswith("exchange/")
        else _DIGEST.sub(b"#", content)
        for place, content in found.items()
    }
    home = workspace.home("a")
    kept = {f"home/{p.name}": p.read_bytes() for p in home.glob("*.arrow")}
    return {**told, **kept}


def _dataset(holders: int) -> Dataset:
    """Everybody's values, of which the first people are those that not all have."""
    i = np.arange(PEOPLE)
    ids = [f"p{k:03d}" for k in i]
    tables = {"a": pl.DataFrame({"id": ids, "y": ((i * 37) % 101 > 50).astype(int)})}
    features: dict[str, dict[str, dict[str, object]]] = {"a": {}}
    if holders == 1:
        # Whom the label holder lacks may be anybody: it asks about nobody of them.
        tables["a"] = tables["a"][TARGETS:]
    for k in range(holders):
        tables[f"b{k}"] = pl.DataFrame({"id": ids, "w": ((i * (k + 7)) % 41) / 40})
        features[f"b{k}"] = {"w": {"bounds": [0, 1]}}
    label = {"column": "y", "task": "binary"}
    # Draws are by everybody in a table: so much epsilon leaves no noise that could differ.
    return Dataset("credit_scoring", "binary", tables, "a", label, features, 0.2, 60.0, (1, 10))

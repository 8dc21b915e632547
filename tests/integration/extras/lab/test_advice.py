"""`opboost plan --write`: the proposal stands in the federation file."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from opboost_ops import api
from opboost_ops.config.agreement import STANDARD
from opboost_ops.extras.datasets.tables import Dataset
from opboost_ops.privacy.loss import end_losses
from tests.commands import opboost, printed
from tests.federation import Workspace, small_credit


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace.write(tmp_path / "fed")


@pytest.fixture
def sample(workspace: Workspace, tmp_path: Path) -> Path:
    """Public rows of the same kind, with the label: columns of both parties in one table."""
    made = small_credit(seed=1)
    label = made.tables[made.label_holder]
    path = tmp_path / "sample.parquet"
    label.join(made.tables["bank"], on=label.columns[0]).write_parquet(path)
    return path


def test_a_division_is_written_with_cells_and_without_what_it_leaves_out(
    workspace: Workspace, sample: Path
) -> None:
    before = set(workspace.declared.parties["bank"].features)
    told: dict[str, Any] = json.loads(
        printed(
            "plan", "federation.yaml", "--party", "bank", "--sample", str(sample),
            "--total-loss-1", "0.8", "--write", "--json", folder=workspace.folder,
        )
    )  # fmt: skip
    features = workspace.declared.parties["bank"].features
    assert set(features) == before - set(told["left_out"])
    domain = workspace.declared.domain.to_domain()
    losses = []
    for column in told["columns"]:
        mechanism = features[column["name"]].mechanism
        assert mechanism is not None
        losses.append(end_losses(mechanism.channel(domain))[0])
        assert losses[-1] == pytest.approx(column["loss_1"])
    assert sum(losses) <= 0.8
    for name, scale in told["scales"].items():
        if name in features:
            declared: Any = features[name].scale
            assert (scale if isinstance(scale, str) else scale["edges"]) == (
                declared if isinstance(scale, str) else list(declared.edges)
            )


def test_channels_lie_beside_the_federation_file_wherever_the_picture_goes(
    workspace: Workspace, sample: Path, tmp_path: Path
) -> None:
    printed(
        "plan", "federation.yaml", "--party", "bank", "--sample", str(sample),
        "--total-loss-1", "0.8", "--total-loss-whole", "3", "--write",
        "--out", str(tmp_path / "pictures"), folder=workspace.folder,
    )  # fmt: skip
    features = workspace.declared.parties["bank"].features.values()
    names = {feature.mechanism.name for feature in features if feature.mechanism is not None}
    assert "designed" in names


def test_a_ranking_is_written_and_never_by_the_own_table(
    workspace: Workspace, sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.known_to(monkeypatch)
    file = workspace.file.read_bytes()
    code, _, err = opboost(
        "plan", "federation.yaml", "--party", "bank", "--max-loss-1", "0.5", "--write",
        folder=workspace.folder,
    )  # fmt: skip
    assert code
    assert "--sample" in err
    assert workspace.file.read_bytes() == file
    printed(
        "plan", "federation.yaml", "--party", "bank", "--max-loss-1", "0.5", "--write",
        "--sample", str(sample), folder=workspace.folder,
    )  # fmt: skip
    domain = workspace.declared.domain.to_domain()
    for feature in workspace.declared.parties["bank"].features.values():
        if feature.type == "numeric" and feature.mechanism is not None:
            assert end_losses(feature.mechanism.channel(domain))[0] <= 0.5


def test_a_ranking_is_written_where_it_gains_and_else_the_declaration_stays(
    workspace: Workspace, sample: Path
) -> None:
    """Held fixed are the guess rates of what is declared; a second plan finds nothing better."""

    def written() -> bytes:
        told = printed(
            "plan", "federation.yaml", "--party", "bank", "--sample", str(sample), "--write",
            folder=workspace.folder,
        )  # fmt: skip
        assert told
        return workspace.file.read_bytes()

    def use_the_standard_channel(data: dict[str, Any]) -> None:
        for feature in data["parties"]["bank"]["features"].values():
            if feature.get("type", "numeric") == "numeric":
                feature |= {"mechanism": dict(STANDARD)}

    workspace.edit_yaml("federation.yaml", use_the_standard_channel, agree=False)
    before = workspace.file.read_bytes()
    first = written()
    assert b"table: standard" in first, "no other channel says more at its losses and guess rates"
    assert first != before
    assert written() == first
    unlabelled = sample.with_name("unlabelled.parquet")
    pl.read_parquet(sample).drop("default").write_parquet(unlabelled)
    code, _, err = opboost(
        "plan", "federation.yaml", "--party", "bank", "--sample", str(unlabelled), "--write",
        folder=workspace.folder,
    )  # fmt: skip
    assert code and "has no column default, which is the label" in err
    assert workspace.file.read_bytes() == first


def test_columns_are_judged_by_what_own_columns_leave(tmp_path: Path) -> None:
    """A column that says what the label holder knows already says nothing."""
    random = np.random.default_rng(4)
    own, fresh = random.random(600), random.random(600)
    table = pl.DataFrame(
        {"id": [f"p{i:03d}" for i in range(600)], "own": own, "y": 3 * own + fresh,
         "same": np.clip(own + random.normal(0, 0.02, 600), 0, 1), "fresh": fresh}
    )  # fmt: skip
    tables = {"a": table.select("id", "own", "y"), "b": table.select("id", "same", "fresh")}
    features: dict[str, Any] = {"a": {"own": {}}}
    features["b"] = {name: {"bounds": [0, 1]} for name in ("same", "fresh")}
    label = {"column": "y", "task": "regression"}
    made = Dataset("sums", "regression", tables, "a", label, features, 0.2, 1.0, (1, 10))
    workspace = Workspace.write(tmp_path / "fed", made)
    best = {}
    for name, columns in (("whole", table.columns), ("theirs", ["id", "y", "same", "fresh"])):
        sample = tmp_path / f"{name}.parquet"
        table.select(columns).write_parquet(sample)
        proposal = api.divide(
            workspace.file, "b", sample=sample, total_loss_1=1.0, out=tmp_path / name
        )
        best[name] = proposal.details["columns"][0]["name"]
    assert best == {"whole": "fresh", "theirs": "same"}

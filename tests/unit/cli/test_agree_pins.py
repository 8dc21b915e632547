"""`opboost agree` pins the columns of a former policy by the UUIDs that the federation repeats."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from opboost_ops.config.loading import load_policy
from tests.federation import Workspace
from tests.unit.cli.conftest import Opboost

FRESH = "6f1d3a52-6f0e-4d0a-9f5e-0e7a3f1c9b33"


def former(workspace: Workspace, text: str | None = None) -> Path:
    """The bank's policy without pinned columns, or another text."""
    path = workspace.folder / "bank" / "policy.yaml"
    if text is None:
        data = yaml.safe_load(path.read_text())
        for rule in data["features"].values():
            del rule["uuid"]
        text = yaml.safe_dump(data, sort_keys=False)
    path.write_text(text)
    return path


def declared(workspace: Workspace) -> dict[str, str]:
    features = workspace.declared.parties["bank"].features
    return {name: str(feature.uuid) for name, feature in features.items()}


@pytest.fixture
def names(workspace: Workspace) -> list[str]:
    return list(declared(workspace))


def test_it_adds_what_is_missing_and_nothing_else(workspace: Workspace, opboost: Opboost) -> None:
    path = former(workspace)
    before = yaml.safe_load(path.read_text())
    site = workspace.folder / "bank"
    asked = json.loads(opboost("agree", site, workspace.file, "--json").output)
    assert asked["pins"] == declared(workspace)
    told = opboost("agree", site, workspace.file, "--yes").output
    for name, uuid in declared(workspace).items():
        assert f"column {uuid} of {name}" in told
    after = yaml.safe_load(path.read_text())
    assert {n: rule.pop("uuid") for n, rule in after["features"].items()} == declared(workspace)
    assert after == before
    assert "has agreed" in opboost("agree", site, workspace.file).output
    workspace.all()


@pytest.mark.parametrize(
    "rule",
    ["{mechanisms: [global_map]}  # ours", "{}", "\n        # ours\n        mechanisms: [a]"],
)
def test_comments_and_style_stay(
    workspace: Workspace, opboost: Opboost, names: list[str], rule: str
) -> None:
    lines = "".join(f"    {name}: {rule}\n" for name in names)
    path = former(workspace, f"# Agreed in May.\nversion: 1\nparty: bank\nfeatures:\n{lines}")
    opboost("agree", workspace.folder / "bank", workspace.file, "--yes").output  # noqa: B018
    text = path.read_text()
    assert text.startswith("# Agreed in May.\n")
    assert text.count("# ours") == (len(names) if "ours" in rule else 0)
    found = load_policy(path).features
    assert {name: str(rule.uuid) for name, rule in found.items()} == declared(workspace)


def test_a_rule_that_two_features_share_is_left_alone(
    workspace: Workspace, opboost: Opboost, names: list[str]
) -> None:
    first, *others = names
    lines = "".join(f"  {name}: *rule\n" for name in others)
    text = (
        "version: 1\nparty: bank\nfeatures:\n"
        f"  {first}: &rule {{mechanisms: [global_map]}}\n{lines}"
    )
    path = former(workspace, text)
    error = opboost("agree", workspace.folder / "bank", workspace.file, "--yes").error
    assert "by hand" in error
    assert declared(workspace)[first] in error
    assert path.read_text() == text


def test_a_column_that_the_ledger_knows_under_another_uuid_is_not_pinned_anew(
    workspace: Workspace, opboost: Opboost
) -> None:
    """Two `init`s gave one column two UUIDs: the one that was charged is the column's."""
    path = former(workspace)
    text, charged = path.read_text(), declared(workspace)["income"]

    def change(data: Any) -> None:
        data["parties"]["bank"]["features"]["income"]["uuid"] = FRESH

    workspace.edit_yaml("federation.yaml", change)
    error = opboost("agree", workspace.folder / "bank", workspace.file, "--yes").error
    assert "features.income.uuid" in error
    assert charged in error
    assert path.read_text() == text


def test_a_uuid_that_is_pinned_stays(workspace: Workspace, opboost: Opboost) -> None:
    path = workspace.folder / "bank" / "policy.yaml"
    before = path.read_bytes()

    def change(data: Any) -> None:
        data["parties"]["bank"]["features"]["income"]["uuid"] = FRESH

    workspace.edit_yaml("federation.yaml", change)
    opboost("agree", workspace.folder / "bank", workspace.file, "--yes").output  # noqa: B018
    assert path.read_bytes() == before

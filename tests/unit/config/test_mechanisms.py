"""Parameters that do not fit the domain are faults of the file."""

from pathlib import Path

import pytest
import yaml

from opboost_ops.config.loading import load_federation
from opboost_ops.errors import ConfigError
from tests.federation import Workspace


def test_all_misfits_at_once(tmp_path: Path) -> None:
    workspace = Workspace.write(tmp_path / "w")
    data = yaml.safe_load(workspace.file.read_text())
    features = data["parties"]["bank"]["features"]
    features["income"]["mechanism"] = {"name": "bucket_response", "epsilon": 1, "buckets": 11}
    features["balance"]["mechanism"] = {"name": "adj_map", "epsilon": 1, "edges": [3, 30]}
    features["overdrafts"]["mechanism"] = {"name": "local_map", "epsilon": 1}
    workspace.file.write_text(yaml.safe_dump(data, sort_keys=False))
    with pytest.raises(ConfigError, match="either theta or edges"):
        load_federation(workspace.file)
    features["overdrafts"]["mechanism"]["theta"] = 2
    workspace.file.write_text(yaml.safe_dump(data, sort_keys=False))
    with pytest.raises(ConfigError) as caught:
        load_federation(workspace.file)
    places = [fault.where for fault in caught.value.faults]
    assert places == [f"parties.bank.features.{name}" for name in ("income", "balance")]


def test_buckets_of_private_data_are_for_routed_scoring_alone(tmp_path: Path) -> None:
    """Said of every such feature at once, whether its scale or its buckets were read off."""
    workspace = Workspace.write(tmp_path / "w")

    def read_off(data: dict) -> None:
        features = data["parties"]["bank"]["features"]
        mechanism = {"name": "bucket_response", "epsilon": 1}
        features["income"]["mechanism"] = {**mechanism, "buckets": 5}
        features["income"]["scale"]["source"] = "private_table"
        features["overdrafts"]["mechanism"] = {
            **mechanism, "edges": [2, 4], "source": "private_table",
        }  # fmt: skip
        features["debt_ratio"]["mechanism"] = {**mechanism, "edges": [1, 4]}
        features["savings_rate"]["mechanism"] = {**mechanism, "edges": [2, 4]}

    workspace.edit_yaml("federation.yaml", read_off)
    for scoring, private in (
        ({"mode": "desensitised"}, True),
        ({"mode": "routed", "evaluate": ["local"]}, True),
        ({"mode": "routed"}, False),
    ):
        workspace.edit_yaml("federation.yaml", lambda data, s=scoring: data.update(scoring=s))
        with pytest.raises(ConfigError) as caught:
            load_federation(workspace.file)
        places = [fault.where.removeprefix("parties.bank.features.")
                  for fault in caught.value.faults]  # fmt: skip
        of_private = ["income.mechanism", "overdrafts.mechanism"] if private else []
        assert sorted(places) == sorted(["debt_ratio", *of_private])
    workspace.edit_yaml(
        "federation.yaml",
        lambda data: data["parties"]["bank"]["features"]["debt_ratio"]["mechanism"].update(
            edges=[2]
        ),
    )
    named = load_federation(workspace.file).without_guarantee
    assert named == ("bank.income", "bank.overdrafts")

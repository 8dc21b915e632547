"""Parameters that do not fit the domain are faults of the file."""

import pytest
import yaml

from opboost_ops.config.loading import load_federation
from opboost_ops.errors import ConfigError
from tests.federation import Workspace


def test_all_misfits_at_once(fresh: Workspace) -> None:
    data = yaml.safe_load(fresh.file.read_text())
    features = data["parties"]["bank"]["features"]
    features["income"]["mechanism"] = {"name": "bucket_response", "epsilon": 1, "buckets": 11}
    features["balance"]["mechanism"] = {"name": "adj_map", "epsilon": 1, "edges": [3, 30]}
    features["overdrafts"]["mechanism"] = {"name": "local_map", "epsilon": 1}
    fresh.file.write_text(yaml.safe_dump(data, sort_keys=False))
    with pytest.raises(ConfigError, match="either theta or edges"):
        load_federation(fresh.file)
    features["overdrafts"]["mechanism"]["theta"] = 2
    fresh.file.write_text(yaml.safe_dump(data, sort_keys=False))
    with pytest.raises(ConfigError) as caught:
        load_federation(fresh.file)
    places = [fault.where for fault in caught.value.faults]
    assert places == [f"parties.bank.features.{name}" for name in ("income", "balance")]


def test_a_bucket_that_would_begin_with_the_domain_is_refused(fresh: Workspace) -> None:

    def buckets(*edges: int) -> None:
        mechanism = {"name": "bucket_response", "epsilon": 1, "edges": list(edges)}
        fresh.edit_yaml(
            "federation.yaml",
            lambda d: d["parties"]["bank"]["features"]["debt_ratio"].update(mechanism=mechanism),
        )

    buckets(1, 4)
    with pytest.raises(ConfigError) as caught:
        load_federation(fresh.file)
    assert [fault.where for fault in caught.value.faults] == ["parties.bank.features.debt_ratio"]
    buckets(2, 4)
    load_federation(fresh.file)

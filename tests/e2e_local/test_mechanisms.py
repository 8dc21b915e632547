"""A whole run under each mechanism, beside the others in one federation."""

import yaml

from opboost_ops.errors import PolicyError
from opboost_ops.models.registry import Registry
from tests.federation import Workspace

MECHANISMS = (
    {"name": "adj_map", "epsilon": 1.0, "theta": 4, "alpha": 2.0},
    {"name": "adj_map", "epsilon": 1.0, "edges": [3, 8]},
    {"name": "local_map", "epsilon": 1.0, "theta": 2},
    {"name": "bucket_response", "epsilon": 2.0, "buckets": 5},
    {"name": "grr", "epsilon": 2.0},
)


def declare(workspace: Workspace, party: str) -> None:
    """Give the party's features a mechanism each, in the public file only."""
    data = yaml.safe_load(workspace.file.read_text())
    features = data["parties"][party]["features"].values()
    for feature, mechanism in zip(features, MECHANISMS, strict=True):
        feature["mechanism"] = dict(mechanism)
    workspace.file.write_text(yaml.safe_dump(data, sort_keys=False))
    workspace.agree()


def allow(workspace: Workspace, party: str, names: list[str]) -> None:
    """Name mechanisms in the party's policy."""
    path = workspace.folder / party / "policy.yaml"
    data = yaml.safe_load(path.read_text())
    for rule in data["features"].values():
        rule |= {"mechanisms": names, "least_cell_width": 0}
    path.write_text(yaml.safe_dump(data))


def test_every_mechanism_in_one_run(fresh: Workspace) -> None:
    declare(fresh, "bank")
    allow(fresh, "bank", sorted({m["name"] for m in MECHANISMS}))
    fresh.all()
    registry = Registry(fresh.folder / "credit" / "models", "credit_scoring")
    assert registry.champion() == fresh.run


def test_a_policy_that_does_not_name_local_map(fresh: Workspace) -> None:
    declare(fresh, "bank")
    allow(fresh, "bank", ["adj_map", "bucket_response", "grr"])
    step, error = fresh.first_failure()
    assert step == "bank.check_table"
    assert isinstance(error, PolicyError)
    assert "local_map is not among them" in fresh.reason("bank")
    assert fresh.store.get(f"credit_scoring/{fresh.run}/ranks/bank") is None

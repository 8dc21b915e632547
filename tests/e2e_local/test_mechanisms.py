"""A whole run under each mechanism, beside the others in one federation."""

from opboost_ops.errors import PolicyError
from tests.federation import Workspace

MECHANISMS = (
    {"name": "adj_map", "epsilon": 1.0, "theta": 4, "alpha": 2.0},
    {"name": "adj_map", "epsilon": 1.0, "edges": [3, 8]},
    {"name": "local_map", "epsilon": 1.0, "theta": 2},
    {"name": "bucket_response", "epsilon": 2.0, "buckets": 5},
    {"name": "grr", "epsilon": 2.0},
)


def declare(workspace: Workspace, *allowed: str) -> None:
    """Give the bank's features a mechanism each, and let its policy name some."""
    names = workspace.declared.parties["bank"].features
    features = {n: {"mechanism": dict(m)} for n, m in zip(names, MECHANISMS, strict=True)}
    workspace.declare("federation.yaml", parties={"bank": {"features": features}})
    workspace.allow("bank", mechanisms=list(allowed), routed="once")


def test_every_mechanism_in_one_run(fresh: Workspace) -> None:
    declare(fresh, *(str(mechanism["name"]) for mechanism in MECHANISMS))
    fresh.all()
    registry = fresh.registry
    assert registry.champion() == fresh.run


def test_a_policy_that_does_not_name_local_map(fresh: Workspace) -> None:
    declare(fresh, "adj_map", "bucket_response", "grr")
    step, error = fresh.first_failure()
    assert step == "bank.check_table"
    assert isinstance(error, PolicyError)
    assert "local_map is not listed" in fresh.reason("bank")
    assert fresh.store.get(f"credit_scoring/{fresh.run}/ranks/bank") is None

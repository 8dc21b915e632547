"""Files of older releases: one message names every removed key, and what replaces it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from opboost_ops.config.loading import load_policy, parse_federation
from opboost_ops.config.removed_keys import REMOVED, REMOVED_VALUES
from opboost_ops.errors import ConfigError
from tests.federation import Workspace
from tests.unit.config.test_horizontal_file import good as horizontal

#: Digest of what parties agree to in `federation-0.3.0.yaml`, by that release.
#: The same where the edges of `bank.income` come from a public sample.


@pytest.fixture
def data(trained_once: Workspace) -> dict[str, Any]:
    return yaml.safe_load(trained_once.file.read_text())


def put(data: Any, path: str, value: Any) -> str:
    """Write a removed key, of the last party and its last feature; returns its place."""
    place = []
    *above, last = path.split(".")
    for step in above:
        place.append((list(data) or ["added"])[-1] if step == "*" else step)
        data = data.setdefault(place[-1], {})
    data[last] = value
    return ".".join([*place, last])


def test_every_removed_key_is_named_with_its_replacement_beside_other_faults(
    data: dict[str, Any],
) -> None:
    data["domain"] = {"lower": 9, "upper": 1}
    expected = {put(data, path, 2): remedy for path, remedy in REMOVED["Federation"].items()}
    with pytest.raises(ConfigError) as error:
        parse_federation(data, "federation.yaml")
    found = {fault.where: fault.suggestion for fault in error.value.faults}
    assert found.items() >= expected.items()
    assert "domain" in found


def test_a_removed_key_that_says_what_applies_now_is_passed_over(data: dict[str, Any]) -> None:
    good = parse_federation(data, "federation.yaml")
    same = {"seed": 0, "least_node": 20, "wait_minutes": 15}
    for key, value in same.items():
        put(data, f"training.{key}", value)
    put(data, "schedule.catch_up", False)
    assert parse_federation(data, "federation.yaml") == good


@pytest.mark.parametrize(
    ("path", "value"), [(path, v) for path, values in REMOVED_VALUES.items() for v in values]
)
def test_a_removed_value_names_its_replacement(data: dict[str, Any], path: str, value: str) -> None:
    place = put(data, path, value)
    with pytest.raises(ConfigError) as error:
        parse_federation(data, "federation.yaml")
    found = {fault.where: fault.suggestion for fault in error.value.faults}
    assert found[place] == REMOVED_VALUES[path][value]


def test_a_policy_of_an_older_release_keeps_its_cap_on_models(
    tmp_path: Path,
) -> None:
    file = tmp_path / "policy.yaml"
    new = {"version": 1, "party": "bank", "features": {}, "model_budget": {"epsilon": 20.0}}
    old = {"version": 1, "party": "bank", "features": {}, "models": {"budget_epsilon": 20.0}}
    found = []
    for content in (new, old):
        file.write_text(yaml.safe_dump(content))
        found.append(load_policy(file))
    assert found[0] == found[1]
    assert found[0].model_budget is not None and found[0].model_budget.epsilon == 20
    # Which of two caps holds is for a person to say.
    file.write_text(yaml.safe_dump({**new, **old}))
    with pytest.raises(ConfigError, match="models"):
        load_policy(file)


def test_what_lies_with_a_model_of_an_older_release_is_still_read(data: dict[str, Any]) -> None:
    good = parse_federation(data, "federation.yaml")
    for path in ("training.redraw", "training.gate"):
        put(data, path, None)
    put(data, "training.denoise", "stack")
    assert parse_federation(data, "federation.json", stored=True) == good


def test_empty_entries_of_other_trainers_and_features_are_passed_over_where_a_model_lies() -> None:
    data = horizontal()
    data["features"]["debt"]["missing"] = {"fill": 1.0}
    good = parse_federation(data, "federation.yaml")
    data["features"]["debt"] |= {"missing": {"fill": 1.0, "bit": None}, "mechanism": None}
    data["training"]["tuning"] = None
    assert parse_federation(data, "federation.json", stored=True) == good

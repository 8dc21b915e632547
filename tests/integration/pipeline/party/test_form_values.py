"""What a trigger form says by its API, where Airflow's own form does not look at it first."""

from pathlib import Path

import pytest

from opboost_ops.cli.run import _parameters
from opboost_ops.errors import ConfigError
from opboost_ops.pipeline.party.form_values import FORM, with_form
from tests.federation import Workspace


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace.write(Path(tmp_path_factory.mktemp("form")) / "federation")


@pytest.mark.parametrize("value", [True, False])
def test_true_is_not_one(workspace: Workspace, value: bool) -> None:
    """`{"trees": true}` trained a single tree."""
    fields = ", ".join(sorted(FORM["train"]))
    with pytest.raises(ConfigError, match=f"true or false for {fields}"):
        with_form(workspace.declared, dict.fromkeys(FORM["train"], value))


def test_parameters_of_the_command_line_are_what_yaml_says() -> None:
    given = [
        "num_leaves=15",
        "lambda_l2=1e-3",
        "extra_trees=true",
        "alpha",
        "grow_policy=lossguide",
        "monotone_constraints={bank.income: 1, shop.age: -1}",
    ]
    assert _parameters(given) == {
        "num_leaves": 15,
        "lambda_l2": 0.001,
        "extra_trees": True,
        "alpha": None,
        "grow_policy": "lossguide",
        "monotone_constraints": {"bank.income": 1, "shop.age": -1},
    }
    with pytest.raises(ConfigError, match="alpha more than once"):
        _parameters(["alpha=1", "alpha=2"])


@pytest.mark.parametrize(
    ("field", "typed", "told"),
    [
        # A browser's field of numbers made nothing of it, so "as declared".
        ("learning_rate", "0,5", "is not a number, with a point before decimals"),
        (
            "trees",
            "1,000",
            "is not a whole number, with a point before decimals and nothing between",
        ),
        ("trees", "1.5", "is not a whole number"),
        ("depth", "1_6", "is not a whole number"),
        ("learning_rate", "nan", "is not a number"),
        ("depth", "17", "depth"),
    ],
)
def test_what_is_typed_is_read_or_refused_in_words(
    workspace: Workspace, field: str, typed: str, told: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        with_form(workspace.declared, {field: typed})
    assert told in str(caught.value)
    assert field in str(caught.value)


def test_all_that_is_typed_wrongly_is_told_at_once(workspace: Workspace) -> None:
    with pytest.raises(ConfigError) as caught:
        with_form(workspace.declared, {"learning_rate": "0,5", "depth": "deep"})
    assert [fault.where for fault in caught.value.faults] == ["learning_rate", "depth"]


def test_typed_numbers_are_numbers(workspace: Workspace) -> None:
    training = with_form(
        workspace.declared, {"learning_rate": "5e-2", "trees": " 30 ", "depth": "4"}
    ).training
    assert (training.learning_rate, training.trees, training.depth) == (0.05, 30, 4)


@pytest.mark.parametrize("name", ["a\n[ERROR] forged \x1b[31m", "x" * 10_000, "{{ conn.a }}", ""])
def test_what_is_typed_for_a_name_is_repeated_only_if_it_is_one(
    workspace: Workspace, name: str
) -> None:
    for form in ({name: 1, "tres": 5}, {"parameters": {name: 1}}):
        with pytest.raises(ConfigError) as caught:
            with_form(workspace.declared, form)
        assert not name or name not in str(caught.value)
        assert len(str(caught.value)) < 300 and "\x1b" not in str(caught.value)
    with pytest.raises(ConfigError, match="unknown fields: text that is no name, tres"):
        with_form(workspace.declared, {name: 1, "tres": 5})

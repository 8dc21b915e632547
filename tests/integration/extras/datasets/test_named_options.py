"""Every named table takes every option of `opboost run`, or the error names the option."""

import re
from pathlib import Path
from typing import Any

import pytest

from opboost_ops.api.runs import write_named
from opboost_ops.config.loading import load_federation
from opboost_ops.errors import ConfigError
from opboost_ops.extras.datasets import NAMES, generated
from opboost_ops.pipeline.party.form_values import with_form

TABLES = [
    pytest.param(
        name,
        # They read public tables from OPBOOST_DATASETS, or download them.
        marks=[] if name == "credit" else pytest.mark.deployment,
    )
    for name in NAMES
]

FORMS: tuple[dict[str, Any], ...] = (
    {"trees": 3, "learning_rate": 0.2, "depth": 2},
    {"denoise": "none", "parameters": {"num_leaves": 7}},
    {"denoise": "joint"},
    {"denoise": "auto"},
)


@pytest.mark.parametrize("name", TABLES)
def test_each_option_makes_files_that_a_run_takes(name: str, tmp_path: Path) -> None:
    for at, form in enumerate(FORMS):
        file, asked = write_named(name, tmp_path / str(at), form, seed=at, epsilon=1.0, upper=8)
        declared = with_form(load_federation(file), asked)
        assert declared.training.denoise == form.get("denoise")
        assert declared.domain.upper == 8
    with pytest.raises(ConfigError, match="--model-epsilon does not apply to"):
        write_named(name, tmp_path / "sums", {}, model_epsilon=1.0)


@pytest.mark.parametrize("model_epsilon", [None, 4.0])
def test_the_horizontal_table_takes_its_own_options(
    tmp_path: Path, model_epsilon: float | None
) -> None:
    file, form = write_named(
        generated.NAME, tmp_path / "own", FORMS[0], seed=0, model_epsilon=model_epsilon
    )
    assert not form
    training = load_federation(file).training
    assert (training.trees, training.learning_rate, training.depth) == (3, 0.2, 2)


@pytest.mark.parametrize(
    ("form", "options", "named"),
    [
        ({}, {"epsilon": 1.0, "upper": 8}, "--epsilon, --upper"),
        ({"denoise": "joint", "trees": 3}, {}, "--denoise"),
        ({"parameters": {"num_leaves": 7}}, {}, "--parameter"),
    ],
)
def test_an_option_of_vertical_learning_is_named(
    tmp_path: Path, form: dict[str, Any], options: dict[str, Any], named: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(named)} does not apply to lenders"):
        write_named(generated.NAME, tmp_path / "new", form, **options)
    assert not (tmp_path / "new").exists()

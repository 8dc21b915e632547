"""`Model` of `opboost_ops.api`: it predicts from raw columns, mapped as `columns.json` says."""

import math
from typing import Any

import lightgbm
import numpy as np
import polars as pl
import pytest

from opboost_ops import api
from opboost_ops.errors import ContractError
from opboost_ops.learning.registry.registry import model_in
from tests.federation import Workspace


def joined(workspace: Workspace) -> pl.DataFrame:
    """Everybody's raw columns in one place, as only an experiment has them."""
    frame = pl.DataFrame()
    for party in ("credit", "shop", "bank"):
        table = pl.read_parquet(workspace.table_path(party))
        names = {name: f"{party}.{name}" for name in table.columns if name != "id"}
        table = table.rename(names)
        frame = table if frame.is_empty() else frame.join(table, on="id")
    return frame


def by_hand(column: Any, raw: list[Any], domain: tuple[int, int]) -> list[float]:
    """A model's column, by its declaration and by nothing of the package."""
    declared, made = column.declared, []
    fill = declared["missing"]["fill"] if isinstance(declared.get("missing"), dict) else None
    for cell in raw:
        gap = cell is None or (isinstance(cell, float) and math.isnan(cell))
        value = fill if gap else cell
        if column.name.endswith("=missing"):
            made.append(float(gap))
        elif "=" in column.name:
            made.append(float(value == column.name.partition("=")[2]))
        elif column.categories is not None:
            known = column.categories
            made.append(float(known.index(value)) if value in known else math.nan)
        elif column.party == "credit":
            made.append(math.nan if value is None else float(value))
        else:
            lower, upper = declared["bounds"]
            inside = min(max(float(value), lower), upper) - lower
            above, span, scale = inside, upper - lower, declared.get("scale")
            low, high = domain
            if isinstance(scale, dict):
                made.append(float(low + sum(edge < value for edge in scale["edges"])))
                continue
            if scale == "log1p":
                above, span = math.log1p(inside), math.log1p(upper - lower)
            made.append(float(low + math.ceil(above * (high - low) / span)))
    return made


def test_raw_columns_are_mapped_as_the_export_says(workspace: Workspace) -> None:
    models = api.models(workspace.file)
    (name,) = models.versions["version"].to_list()
    model, frame = models.model(name), joined(workspace)
    columns = model.columns.columns
    # Every way of mapping is among them: codes, bits, edges, a logarithm and plain numbers.
    assert [column.name for column in columns if column.categories] == ["credit.employment"]
    scales = [str(column.declared.get("scale")) for column in columns]
    assert "log1p" in scales and any("edges" in scale for scale in scales)
    assert {"shop.returns_share=missing", "shop.payment=card"} <= {c.name for c in columns}
    matrix = np.array(
        [
            by_hand(c, frame[f"{c.party}.{c.feature}"].to_list(), model.columns.domain)
            for c in columns
        ]
    ).T
    np.testing.assert_array_equal(model.matrix(frame), matrix)
    stock = lightgbm.Booster(model_str=model_in(models.files(name))).predict(matrix)
    found = model.predict_proba(frame)
    np.testing.assert_array_equal(found[:, 1], stock)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    classes = model.predict(frame)
    assert set(classes.tolist()) <= set(model.classes)
    np.testing.assert_array_equal(classes == model.classes[1], found[:, 1] > 0.5)
    # A feature's name alone is enough where only one party has it.
    alone = frame.rename({n: n.partition(".")[2] for n in frame.columns if n != "id"})
    np.testing.assert_array_equal(model.predict_proba(alone), found)


def test_a_column_that_is_not_there_is_named(workspace: Workspace) -> None:
    models = api.models(workspace.file)
    model = models.model(models.versions["version"].to_list()[0])
    with pytest.raises(ContractError, match=r"no column bank\.income"):
        model.predict(joined(workspace).drop("bank.income"))


@pytest.mark.parametrize("value", ["1", [1.0], b"1", math.inf])
def test_a_value_that_a_run_refuses_is_refused(workspace: Workspace, value: Any) -> None:
    models = api.models(workspace.file)
    model = models.model(models.versions["version"].to_list()[0])
    with pytest.raises(ContractError, match="income"):
        model.predict(joined(workspace).with_columns(pl.lit(value).alias("bank.income")))


def test_scikit_learn_takes_it_as_a_trained_classifier(workspace: Workspace) -> None:
    sklearn = pytest.importorskip("sklearn")
    from sklearn.inspection import permutation_importance
    from sklearn.model_selection import cross_val_score

    models = api.models(workspace.file)
    model, frame = models.model(models.versions["version"].to_list()[0]), joined(workspace)
    raw = frame.select(model.features).to_pandas()
    truth = frame[f"credit.{model.columns.predicts}"].to_numpy()
    assert sklearn.base.is_classifier(model)
    copy = sklearn.base.clone(model)
    np.testing.assert_array_equal(copy.predict(raw), model.predict(frame))
    folds = cross_val_score(model, raw, truth, scoring="roc_auc", cv=3)
    assert folds.mean() > 0.5
    # Nothing is learnt in a fold: accuracies add up to that of all rows.
    whole = cross_val_score(model, raw, truth, cv=3)
    assert whole.mean() == pytest.approx(model.score(raw, truth), abs=0.01)
    used = permutation_importance(model, raw, truth, n_repeats=1, random_state=0)
    assert used.importances_mean.shape == (model.n_features_in_,)


def test_an_array_has_the_columns_of_features_in_order(workspace: Workspace) -> None:
    """As libraries of explanations pass rows."""
    models = api.models(workspace.file)
    model, frame = models.model(models.versions["version"].to_list()[0]), joined(workspace)
    rows = frame.select(model.features).to_numpy()
    np.testing.assert_array_equal(model.predict_proba(rows), model.predict_proba(frame))
    with pytest.raises(ContractError, match="in this order"):
        model.predict(rows[:, 1:])


def test_pictures_are_shown_by_a_notebook(workspace: Workspace) -> None:
    models = api.models(workspace.file)
    pictures = models.pictures(models.versions["version"].to_list()[0])
    assert {"ROC", "Gains", "Calibration", "by party"} <= pictures.keys(), pictures
    for picture in pictures.values():
        shown = picture._repr_html_()
        assert "<svg" in shown and "--k0" in shown
        assert "http" not in shown and "@import" not in shown

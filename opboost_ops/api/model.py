"""A trained version as a scikit-learn estimator: it maps raw columns by its declaration."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from opboost_ops.errors import ContractError
from opboost_ops.extras.export.export import ModelColumns, model_columns
from opboost_ops.extras.serving.rows import plain_value, require_values
from opboost_ops.learning.boosters.trainer import predict
from opboost_ops.learning.metrics import evaluate
from opboost_ops.learning.registry.importance import RawColumn, raw_columns
from opboost_ops.learning.registry.registry import federation_in, model_in
from opboost_ops.pipeline.inputs import raw_table
from opboost_ops.pipeline.inputs.model_columns import model_columns as run_columns
from opboost_ops.tables.raw_values import declared_series


class Model:
    """A model version that predicts from raw columns, for experiments.

    Works with scikit-learn as a fitted classifier or regressor; `fit` does nothing.

    Args:
        files: The version's files, by name.
        version: The version's id.

    Raises:
        ContractError: The model is horizontal; its columns belong to a single party.
    """

    def __init__(self, files: Mapping[str, bytes], version: str) -> None:
        self.version = version
        self._files = files
        self.columns: ModelColumns = model_columns(files)
        self._text = model_in(files)
        self._federation = federation_in(files)
        if self._federation.learning == "horizontal":
            raise ContractError(
                "A model of horizontal learning cannot predict from raw columns here.",
                "Use `opboost score`.",
            )
        self._columns = raw_columns(self._federation, json.loads(files["columns.json"]))

    def __repr__(self) -> str:
        target = f"{self.columns.task} of {self.columns.predicts}"
        return f"Model({self.version}: {target}, {len(self.columns.columns)} columns)"

    @property
    def classes_(self) -> np.ndarray:
        """`classes`, under scikit-learn's name."""
        return np.asarray(self.classes)

    @property
    def feature_names_in_(self) -> np.ndarray:
        """`features`, under scikit-learn's name."""
        return np.asarray(self.features, dtype=object)

    @property
    def n_features_in_(self) -> int:
        """Number of raw columns that a frame must have."""
        return len(self.features)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments, from which scikit-learn makes a copy."""
        del deep
        return {"files": self._files, "version": self.version}

    def set_params(self, **params: Any) -> "Model":
        """Return self; a trained version has no settable parameters.

        Raises:
            ContractError: ``params`` is not empty.
        """
        if params:
            raise ContractError(
                f"A trained version cannot change {', '.join(params)}.", "Train another version."
            )
        return self

    def fit(self, frame: Any, label: Any = None) -> "Model":
        """Return self unchanged: each fold of a cross-validation scores this trained version."""
        del frame, label
        return self

    def score(self, frame: Any, label: Any) -> float:
        """Return the accuracy, or R² in regression, as scikit-learn's estimators do.

        Args:
            frame: As for `matrix`.
            label: Class values or numbers, shape (n,).
        """
        truth, predicted = np.asarray(label), self.predict(frame)
        if self.classes:
            return float((truth == predicted).mean())
        metrics = evaluate("regression", truth.astype(np.float64), predicted)
        return metrics.get("r2", float("nan"))

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, RegressorTags, Tags, TargetTags

        kind = "classifier" if self.classes else "regressor"
        return Tags(
            estimator_type=kind,
            target_tags=TargetTags(required=False),
            classifier_tags=ClassifierTags() if self.classes else None,
            regressor_tags=None if self.classes else RegressorTags(),
            input_tags=InputTags(string=True, allow_nan=True),
        )

    @property
    def classes(self) -> tuple[Any, ...]:
        """Class values in the order of `predict_proba`; empty for regression."""
        return self.columns.classes

    @property
    def features(self) -> tuple[str, ...]:
        """Raw columns that a frame must have, as ``party.feature`` or as ``feature``."""
        return tuple(dict.fromkeys(column.source for column in self._columns))

    def matrix(self, frame: Any) -> np.ndarray:
        """Return the booster's input matrix for a frame of raw columns.

        Args:
            frame: A polars or pandas frame with columns named ``party.feature`` or, if
                unambiguous, ``feature``; or an array with the columns of `features` in order. With
                ``overlap: left``, a row in which all of a feature holder's columns are missing
                is of a person whom that party does not have.

        Returns:
            float64, shape (n, columns), in the model's order.

        Raises:
            ContractError: A column is missing, or has a value that its declaration does not allow.
        """
        frame = _frame(frame, self.features)
        first = {column.source: column for column in reversed(self._columns)}
        sources = {
            name: _declared_values(first[name], _column(frame, name, self.features))
            for name in self.features
        }
        absent = {
            party: np.logical_and.reduce(
                [raw_table.missing(of) for name, of in sources.items() if _party(name) == party]
            )
            for party in self._federation.feature_holders
            if self._federation.keeps_all
        }
        columns = [*run_columns(self._columns, sources, absent).values()]
        return np.column_stack(columns) if columns else np.empty((frame.height, 0))

    def predict_proba(self, frame: Any) -> np.ndarray:
        """Predict uncalibrated class probabilities.

        Args:
            frame: As for `matrix`.

        Returns:
            float64, shape (n, classes), in the order of `classes`.

        Raises:
            ContractError: The model is a regression, or the frame violates the declaration.
        """
        if not self.classes:
            raise ContractError("A regression has no classes.", "Use predict.")
        probabilities = predict(self._text, self.matrix(frame))
        return (
            probabilities
            if probabilities.ndim == 2
            else np.column_stack([1 - probabilities, probabilities])
        )

    def predict(self, frame: Any) -> np.ndarray:
        """Predict each row's most likely class, or its number in regression.

        Args:
            frame: As for `matrix`.

        Raises:
            ContractError: The frame violates the declaration.
        """
        if not self.classes:
            return predict(self._text, self.matrix(frame))
        classes: np.ndarray = np.asarray(self.classes)
        most_likely: np.ndarray = classes[self.predict_proba(frame).argmax(axis=1)]
        return most_likely


def _frame(data: Any, features: tuple[str, ...]) -> pl.DataFrame:
    """Convert a polars frame, pandas frame or array to a polars frame."""
    if isinstance(data, pl.DataFrame):
        return data
    if hasattr(data, "columns"):
        return pl.DataFrame([_series(str(name), data[name]) for name in data.columns])
    array = np.asarray(data)
    if array.ndim != 2 or array.shape[1] != len(features):
        raise ContractError(
            f"The array has shape {array.shape}, but the model has {len(features)} raw columns.",
            f"Pass them in this order: {', '.join(features)}.",
        )
    columns = zip(features, array.T, strict=True)
    return pl.DataFrame({name: pl.Series(of.tolist(), strict=False) for name, of in columns})


def _series(name: str, values: Any) -> pl.Series:
    """Convert a pandas column, whose missing values take many forms."""
    if getattr(values.dtype, "kind", "O") in "biuf" and isinstance(values.dtype, np.dtype):
        return pl.Series(name, values.to_numpy())
    return pl.Series(name, [plain_value(value) for value in values.tolist()], strict=False)


def _declared_values(column: RawColumn, raw: pl.Series) -> pl.Series:
    """Convert a raw column by its declaration; raise where a run would."""
    feature = column.declared
    raw_table.require_types(raw.to_frame(), column.party, {raw.name: feature})
    values = declared_series(raw, feature)
    if column.made in ("code", "number"):
        require_values(values, feature)
    return values


def _column(frame: pl.DataFrame, name: str, every: tuple[str, ...]) -> pl.Series:
    feature = name.partition(".")[2]
    if name in frame.columns:
        return frame.get_column(name).alias(feature)
    unique = sum(other.partition(".")[2] == feature for other in every) == 1
    if unique and feature in frame.columns:
        return frame.get_column(feature)
    raise ContractError(
        f"The frame has no column {name}.",
        f"The model needs {', '.join(every)}. A feature's name without its party is enough if only "
        "one party has it.",
    )


def _party(source: str) -> str:
    return source.partition(".")[0]

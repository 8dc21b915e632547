"""The pyfunc model of a version in MLflow, which scores raw rows with the version's ONNX file.

MLflow stores a copy of this file, so it must run without OpBoost.
"""

from typing import Any

import mlflow.pyfunc
import numpy as np
import pandas as pd


class Scorer(mlflow.pyfunc.PythonModel):  # type: ignore[misc, name-defined, unused-ignore]
    """Takes a frame of raw columns, and returns a frame with ``score`` and the classes."""

    def load_context(self, context: Any) -> None:
        """Load the ONNX file."""
        import onnxruntime  # Not installed where the version is recorded.

        providers = ["CPUExecutionProvider"]
        path = context.artifacts["model"]
        self._session = onnxruntime.InferenceSession(path, providers=providers)

    def predict(self, context: Any, model_input: pd.DataFrame, params: Any = None) -> pd.DataFrame:
        """Score rows.

        Raises:
            ValueError: A column is missing or has another type.
        """
        del context, params
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        absent = [put.name for put in inputs if put.name not in model_input.columns]
        if absent:
            raise ValueError(f"The frame has no column {', '.join(absent)}.")
        feed = {put.name: _column(model_input[put.name], put.type) for put in inputs}
        names = [put.name for put in outputs]
        results = self._session.run(names, feed)
        return pd.DataFrame(dict(zip(names, results, strict=True)), index=model_input.index)


def _column(raw: "pd.Series[Any]", kind: str) -> np.ndarray:
    cells = [None if gap else cell for cell, gap in zip(raw.tolist(), raw.isna(), strict=True)]
    is_text = kind == "tensor(string)"
    if any(cell is not None and isinstance(cell, str) != is_text for cell in cells):
        raise ValueError(f"{raw.name} must contain {'strings' if is_text else 'numbers'}.")
    if is_text:
        return np.array([(cell or "").strip() for cell in cells], dtype=object)
    return np.array([np.nan if cell is None else float(cell) for cell in cells])


mlflow.models.set_model(Scorer())

"""Export of models for other programs: the boosters' own formats, ONNX, MLflow.

`export.export_model` converts a version to another format, `export.model_columns` describes its
columns; `mlflow_run` runs in a separate process.
"""

"""Models for other programs: the boosters' own files, ONNX, MLflow.

`export.export_model` writes a version in another form, `export.model_columns` says what its
columns hold; `mlflow_run` runs as a process of its own.
"""

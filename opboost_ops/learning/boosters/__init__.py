"""LightGBM, XGBoost and private boosting behind a common protocol, `backend.Backend`.

`trainer.train` and `trainer.predict` select the booster. `backend.Engine` is the protocol of
training on a table: `lightgbm_backend.LocalEngine`, `dask_engine.DaskEngine`.
"""

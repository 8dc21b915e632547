"""LightGBM, XGBoost and private boosting behind a common protocol, `backend.Backend`.

`trainer.train` and `trainer.predict` select the booster.
"""

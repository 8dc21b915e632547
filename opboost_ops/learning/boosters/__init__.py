"""LightGBM, XGBoost and private boosting behind one protocol.

`trainer.train` and `trainer.predict` choose the booster; `backend.Backend` is the protocol.
"""

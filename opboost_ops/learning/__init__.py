"""Gradient boosting on ranks and values, and the registry of trained models.

`metrics.evaluate` measures a model, `splits.materialise` replaces its ranks by values, and
`tuning` searches parameters. The packages: `boosters` (LightGBM and XGBoost), `private`
(differentially private boosting), `federboost` (horizontal learning), `denoise` (posterior
sampling of original values) and `registry` (model versions).
"""

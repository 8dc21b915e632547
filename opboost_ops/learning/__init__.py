"""Gradient boosting on ranks and values, and the registry of trained models.

`metrics.evaluate` measures a model, `splits.materialise` replaces ranks in it by values,
`tuning` searches parameters. `boosters` has the trainers, `private` differentially private ones,
`federboost` those of horizontal learning, `denoise` the posterior of original values, `registry`
the versions.
"""

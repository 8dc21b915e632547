"""Differentially private boosting: integer noise, random or noisy splits.

`trainer.fit` trains a model; `noise` is the only source of noise for models.
"""

"""Differentially private boosting, with random or private splits and integer noise.

`trainer.fit` trains a model; `noise` is the only source of noise for models.
"""

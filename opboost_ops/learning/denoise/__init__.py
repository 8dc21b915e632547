"""Posterior sampling of original values from randomised ones.

`joint.train` samples them by the channels and a mixture model of the rows, and trains on them.
"""

"""Posterior sampling of the original values behind randomised ones.

`joint.imputed` samples them from the channels and a mixture model of the rows.
"""

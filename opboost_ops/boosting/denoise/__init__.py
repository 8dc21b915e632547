"""Posterior sampling of all released columns together, under their known channels."""

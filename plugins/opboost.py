"""Registers the plugin where the package is on the path but not installed."""

from opboost_ops.orchestration.plugin import OpBoostPlugin

__all__ = ["OpBoostPlugin"]

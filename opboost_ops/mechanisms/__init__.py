"""Order-preserving mechanisms: each owns its parameters and its exact channel."""

from opboost_ops.mechanisms.global_map import GlobalMap

Mechanism = GlobalMap

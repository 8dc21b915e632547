"""The functions of all steps by name; `opboost_ops.pipeline.phases` has their parties and order."""

from collections.abc import Mapping
from importlib import import_module

from opboost_ops.pipeline.protocol import STEPS
from opboost_ops.pipeline.stage import Stage


def _function(name: str) -> Stage:
    module = STEPS[name].module or name
    stage: Stage = getattr(import_module(f"opboost_ops.pipeline.steps.{module}"), name)
    return stage


#: Functions by stage name, except for `open_run`, which comes before all of them.
STAGES: Mapping[str, Stage] = {name: _function(name) for name in STEPS}

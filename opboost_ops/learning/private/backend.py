"""DPBoost behind the protocol: its model is a LightGBM text model, and stock LightGBM predicts."""

from importlib import metadata

import numpy as np

from opboost_ops.learning.boosters.frame import Frame, Parameters, Tell, unheard
from opboost_ops.learning.boosters.lightgbm_backend import LightGBM
from opboost_ops.learning.private import noise
from opboost_ops.learning.private.memory import Memory
from opboost_ops.learning.private.text import model_text
from opboost_ops.learning.private.trainer import bounds_of, fit


class DPBoost(LightGBM):
    """Our own trainer; everything after it is LightGBM's."""

    name = "DPBoost"

    def version(self) -> str:
        """Of the libraries that draw its noise and read its models."""
        return f"with OpenDP {metadata.version('opendp')}, for LightGBM {super().version()}"

    def require(self) -> None:
        """Make sure that OpenDP is installed, and that LightGBM loads.

        Raises:
            ConfigError: One of them does not.
        """
        noise.require()
        super().require()

    def train(
        self,
        frame: Frame,
        label: np.ndarray,
        parameters: Parameters,
        tell: Tell = unheard,
        memory: Memory | None = None,
    ) -> str:
        """Train with differential privacy; every training is a new draw and a new release.

        Args:
            frame: Training rows, with declared thresholds and categories.
            label: Numbers or class indices, shape (n,).
            parameters: How.
            tell: Told after each tree.
            memory: What an earlier try has drawn, which this one goes on with.

        Returns:
            A text model that tells of the data no more than its epsilon allows.
        """
        self.require()
        found = fit(frame, label, parameters, memory, tell=tell)
        return model_text(
            found.trees, found.candidates, parameters, bounds_of(parameters), found.initial
        )

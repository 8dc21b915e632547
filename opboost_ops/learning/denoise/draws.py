"""Repeatable draws for post-processing at the label holder; no privacy hangs on them."""

import numpy as np
from scipy.special import ndtri

from opboost_ops.mechanisms import noise
from opboost_ops.mechanisms.cmac import cmac


class Draws:
    """Uniform and normal numbers, each named by its purpose and place.

    They are keyed hashes under a public seed, which makes the model repeatable: what is made of a
    release costs nothing.

    Args:
        seed: 32 bytes.
    """

    def __init__(self, seed: bytes) -> None:
        self._seed = seed

    def uniform(self, purpose: str, begin: int, end: int) -> np.ndarray:
        """Numbers in (0, 1), float64, shape (end - begin,); the same for the same places.

        Args:
            purpose: No two draws that must be independent have the same.
            begin: Of the first place.
            end: Beyond the last.
        """
        places = np.arange(begin, end, dtype=np.uint64)
        return self.of_keys(purpose, np.column_stack([places, places]).view(np.uint8))

    def of_keys(self, purpose: str, keys: np.ndarray) -> np.ndarray:
        """Numbers in (0, 1), float64, shape (n,), each a function of its key alone.

        Args:
            purpose: As for `uniform`.
            keys: 16 bytes each, uint8, shape (n, 16).
        """
        words = cmac(noise.keyed_by(self._seed, purpose), keys)[:, :8].copy().view(np.uint64)[:, 0]
        return np.asarray((words >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53

    def normal(self, purpose: str, *shape: int) -> np.ndarray:
        """Standard normal numbers of a shape."""
        return np.asarray(ndtri(self.uniform(purpose, 0, int(np.prod(shape))))).reshape(shape)

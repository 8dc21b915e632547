"""A table whose law is known, released through an exact channel."""

import numpy as np

from opboost_ops.domain import Domain
from opboost_ops.learning.boosters.backend import Frame, Parameters
from opboost_ops.mechanisms import GlobalMap

DOMAIN = Domain(1, 10)
MECHANISM = GlobalMap(epsilon=0.64)
CHANNEL = MECHANISM.channel(DOMAIN)
NAMES = ("b.x", "b.u", "b.v")
CHANNELS = dict.fromkeys(NAMES, CHANNEL)
REGRESSION = Parameters("regression", classes=0, trees=40, learning_rate=0.2, depth=3, seed=0)


def planted(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Clear values of three columns that go together, shape (n, 3), and a number they decide."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=rows)
    columns = [hidden + rng.normal(scale=s, size=rows) for s in (0.2, 0.4, 0.8)]
    clear = np.clip(np.ceil(5.5 + 2 * np.column_stack(columns)), 1, 10).astype(np.int64)
    label = clear @ np.array([1.0, 0.5, 0.25]) + rng.normal(scale=0.2, size=rows)
    return clear, label


def released(clear: np.ndarray, seed: int = 1) -> Frame:
    """What the channel makes of them, as ranks."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 2**64, clear.shape, dtype=np.uint64)
    outputs = [CHANNEL.alias.sample(clear[:, i] - 1, words[:, i]) + 1 for i in range(3)]
    return Frame(NAMES, np.asfortranarray(np.column_stack(outputs).astype(float)), (), NAMES)

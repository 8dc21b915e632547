"""What denoising costs the label holder beside plain training: processor seconds and memory.

A made-up table of columns that go together, released through Global-map, with a label that is a
number; all columns are feature holders'. Plain training and `joint` with training are each measured
in a process of its own, forked from one that has imported the libraries and made nothing. The peak
is of resident memory, less what the process had once its frame was there: so it is what denoising
and training take beside the frame.
"""

import json
import sys
import time
from collections.abc import Callable

import lightgbm  # noqa: F401 - or plain training would pay for reading it
import numpy as np

from benchmarks.measure import forget_peak, forked, parser_of, show, status
from opboost_ops.domain import Domain
from opboost_ops.learning.boosters import trainer
from opboost_ops.learning.boosters.backend import Frame, Parameters
from opboost_ops.learning.denoise import joint
from opboost_ops.learning.denoise.classes import Draws
from opboost_ops.mechanisms import GlobalMap, noise

CHANNEL = GlobalMap(epsilon=0.64).channel(Domain(1, 10))
PARAMETERS = Parameters("regression", classes=0, trees=80, learning_rate=0.1, depth=3, seed=0)
SEED = bytes(32)


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = parser_of(__doc__)
    parser.add_argument("--shape", nargs="+", default=["10000x9", "1000000x10", "1000000x40"])
    parser.add_argument("--kind", nargs="+", default=list(KINDS), choices=list(KINDS))
    options = parser.parse_args()
    found = []
    for shape in options.shape:
        rows, columns = map(int, shape.split("x"))
        line: dict[str, object] = {"rows": rows, "columns": columns}
        for kind in options.kind:
            line[kind] = forked(lambda k=kind, n=rows, c=columns: measured(k, n, c))
        found.append(line)
        print(json.dumps(line), file=sys.stderr)
    show({"shapes": found}, options)


def made_up(rows: int, columns: int) -> tuple[Frame, np.ndarray]:
    """A frame of released ranks, and the number that the clear values decide."""
    draws = Draws(SEED)
    hidden = draws.normal("hidden", rows)
    names = tuple(f"b.x{i}" for i in range(columns))
    matrix = np.empty((rows, columns), order="F")
    label = np.zeros(rows)
    for i, name in enumerate(names):
        own = draws.normal(name, rows)
        clear = np.clip(np.rint(5.5 + 1.5 * hidden + own), 1, 10).astype(np.int64)
        label += clear * (1.0 / (1 + i))
        words = noise.Words.seeded(SEED, name).take(len(clear))
        matrix[:, i] = CHANNEL.alias.sample(clear - 1, words) + 1
    return Frame(names, matrix, (), names), label


def plain(frame: Frame, label: np.ndarray) -> str:
    """Training on ranks as they were released."""
    return trainer.train(frame, label, PARAMETERS)


def jointly(frame: Frame, label: np.ndarray) -> str:
    """All columns sampled together, then training on the stacked samples."""
    channels = dict.fromkeys(frame.ranked, CHANNEL)
    return joint.train(frame, label, PARAMETERS, channels, SEED)


KINDS: dict[str, Callable[[Frame, np.ndarray], str]] = {
    "plain": plain,
    "joint": jointly,
}


def measured(kind: str, rows: int, columns: int) -> dict[str, float]:
    """Processor seconds of training and of predicting all rows, and training's peak in MB."""
    frame, label = made_up(rows, columns)
    # The frame's making must not count.
    forget_peak()
    before, begun = status("VmHWM"), time.process_time()
    text = KINDS[kind](frame, label)
    seconds, begun = time.process_time() - begun, time.process_time()
    high = status("VmHWM")
    trainer.predict(text, frame.matrix)
    return {
        "seconds": round(seconds, 2),
        "peak_mb": round((high - before) / 1e6),
        "predict_seconds": round(time.process_time() - begun, 2),
        "frame_mb": round(frame.matrix.nbytes / 1e6),
    }


if __name__ == "__main__":
    main()

"""DP-EBM of InterpretML on the folds of `private_splits`, in an environment that is thrown away.

It is Microsoft's differentially private explainable boosting machine (Nori et al., 2021). The
package is installed by pip into a temporary folder, and each fold is a process of its own that is
ended after `LIMIT` seconds; a fold that takes longer is left out and counted. Bounds of features
and classes are given, so that nothing is read off the data without noise. Settings are the
library's own but for one process and one outer bag, which is its default with privacy.
"""

import atexit
import json
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from benchmarks.papers.one_table import OneTable

VERSION = "0.7.8"

#: Seconds of one fold.
LIMIT = 150

#: Run in the other environment: reads arrays, writes predictions.
_SCRIPT = """
import sys, json, numpy as np
from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor
folder, epsilon, delta, seed = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
data = np.load(folder + "/data.npz")
told = json.load(open(folder + "/told.json"))
names = told["names"]
more = dict(epsilon=epsilon, delta=delta, n_jobs=1, outer_bags=1, random_state=seed,
            feature_names=names, feature_types=told["types"],
            privacy_bounds={name: tuple(b) for name, b in told["bounds"].items()})
if told["target"] is None:
    model = DPExplainableBoostingClassifier(**more)
    model.fit(data["x"], data["y"].astype(int))
    found = model.predict_proba(data["test"])[:, 1]
else:
    more["privacy_target_min"], more["privacy_target_max"] = told["target"]
    model = DPExplainableBoostingRegressor(**more)
    model.fit(data["x"], data["y"])
    found = model.predict(data["test"])
np.save(folder + "/found.npy", found)
"""


@lru_cache(maxsize=1)
def _python() -> str:
    folder = Path(tempfile.mkdtemp(prefix="dp-ebm-"))
    # All folds share it, so it goes with this process.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    wanted = [f"interpret-core[required]=={VERSION}"]
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted]
    subprocess.run(command, check=True, stdout=sys.stderr, timeout=600)
    return python


def scores(epsilon: float, delta: float) -> Callable[..., np.ndarray | None]:
    """What predicts a fold by its machine, or nothing where that takes too long.

    Args:
        epsilon: Of the whole model.
        delta: Its delta.
    """
    return partial(_scores, epsilon=epsilon, delta=delta)


def _scores(
    table: OneTable, test: np.ndarray, seed: int, *, epsilon: float, delta: float
) -> np.ndarray | None:
    frame = table.frame
    types, bounds = [], {}
    for name in frame.names:
        nominal = name in frame.categorical
        types.append("nominal" if nominal else "continuous")
        if not nominal:
            cuts = frame.thresholds[name]
            bounds[name] = (float(cuts[0]), float(cuts[-1]))
    # Both bounds of labels are declared, as for our own trainer.
    target = None if table.task == "binary" else (0.0, 30.0)
    with tempfile.TemporaryDirectory(prefix="dp-ebm-fold-") as place:
        folder = Path(place)
        x = np.nan_to_num(frame.matrix, nan=-1.0)
        np.savez(folder / "data.npz", x=x[~test], y=table.label[~test], test=x[test])
        told = {"names": list(frame.names), "types": types, "bounds": bounds, "target": target}
        (folder / "told.json").write_text(json.dumps(told))
        command = [_python(), "-c", _SCRIPT, place, repr(epsilon), repr(delta), str(seed)]
        try:
            subprocess.run(command, check=True, stdout=sys.stderr, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return None
        return np.asarray(np.load(folder / "found.npy"))

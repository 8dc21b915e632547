"""Make `nights-RELEASE.tar.xz`: what two parties had after four nights under a former release.

Run it with that release's own code, and never with another one; a file is made once and kept:

    git worktree add ../release-0.1.0 f91ea14   # 0.2.0: d958b54
    (cd ../release-0.1.0 && make setup && .venv/bin/python <this file> <nights-0.1.0.tar.xz>)

A label holder and a bank train every night, on unchanged tables. What all nights but the last two
have left at home and in the store is deleted. All keys are made here and protect nothing.
"""

import hashlib
import importlib
import os
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import yaml

sys.path.insert(0, str(Path(__file__).parents[2]))

from opboost_ops.config.loading import load_federation
from opboost_ops.datasets.dataset import Dataset
from opboost_ops.datasets.workspace import write_workspace
from tests.golden.make_site_0_1_0 import _nobody, said

ROWS, NIGHTS = 80, 4
#: The budget of loss(R - L) of each of the bank's columns: enough for one draw, not for two.
BUDGET = 4.5


def declared() -> Dataset:
    """The federation `nightly` of a label holder and a bank."""
    random = np.random.default_rng(7)
    income = np.round(np.exp(7.9 + 0.5 * random.normal(size=ROWS)), 2).astype(object)
    income[::16] = None
    ids = [f"P{i:05d}" for i in range(ROWS)]
    levels = np.array(["low", "middle", "high"])
    bit = {"fill": 2500, "bit": {"epsilon": 0.5}}
    return Dataset(
        name="nightly",
        task="binary",
        tables={
            "credit": pl.DataFrame(
                {
                    "id": ids,
                    "age": random.integers(18, 90, ROWS),
                    "default": random.integers(0, 2, ROWS),
                }
            ),
            "bank": pl.DataFrame(
                {
                    "id": ids,
                    "income": pl.Series(income.tolist(), dtype=pl.Float64),
                    "rating": levels[random.integers(0, 3, ROWS)],
                }
            ),
        },
        label_holder="credit",
        label={"column": "default", "task": "binary", "classes": [0, 1]},
        features={
            "credit": {"age": {"bounds": [18, 90]}},
            "bank": {
                "income": {"bounds": [300, 30_000], "scale": "log1p", "missing": bit},
                "rating": {"type": "ordinal", "categories": levels.tolist()},
            },
        },
        holdout=0.25,
        epsilon=0.64,
        domain=(1, 10),
        notes="Generated; nobody's data.",
        new_rows={},
    )


def part(before: str, now: str) -> object:
    """A module by the name that 0.1.0 gave it, or 0.2.0."""
    try:
        return importlib.import_module(f"opboost_ops.{now}")
    except ModuleNotFoundError:
        return importlib.import_module(f"opboost_ops.{before}")


def night(file: Path, number: int) -> None:
    """One training, all parties in this process."""
    opening, runner = part("opening", "run.opening"), part("runner", "run.runner")
    protocol, inbox = part("protocol", "run.phases"), part("receiving", "run.inbox")
    federation = load_federation(file)
    run = hashlib.sha256(f"night {number}".encode()).hexdigest()[:16]
    opening.open_run(file, run, {})
    for party, stage in protocol.steps(federation, "train"):
        runner.run_stage(party, stage, inbox.Run("nightly", run, federation.label_holder))


def forget_earlier(folder: Path) -> None:
    """Delete what nights before the last two have left at home and in the store."""
    for place in (*folder.glob("*/home/nightly"), folder / "exchange" / "nightly"):
        runs = sorted(place.iterdir(), key=lambda path: path.stat().st_mtime)
        for path in runs[:-2]:
            shutil.rmtree(path)


def wanted(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Of the homes only what says which artifacts and draws there were."""
    path = Path(member.name)
    kept = "home" not in path.parts or path.name in ("acceptance.json", "held.json")
    return _nobody(member) if member.isdir() or kept else None


def limit(path: Path) -> None:
    """Write the budget into the bank's policy."""
    policy = yaml.safe_load(path.read_text())
    for rule in policy["features"].values():
        rule["budget_whole"] = BUDGET
    path.write_text(yaml.safe_dump(policy, sort_keys=False))


def main(out: Path) -> None:
    """Make the file."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "nights"
        training = {"trees": 1, "depth": 2, "tolerance": 1.0}
        file = write_workspace(declared(), folder, training=training)
        limit(folder / "bank" / "policy.yaml")
        for party in ("credit", "bank"):
            os.environ[f"OPBOOST_SITE_{party.upper()}"] = str(folder / party / "site.yaml")
        for number in range(1, NIGHTS + 1):
            night(file, number)
            forget_earlier(folder)
        said(folder, "ledger_bank", "ledger", "show", "bank", "--people")
        with tarfile.open(out, "w:xz", preset=9) as archive:
            archive.add(folder, "nights", filter=wanted)
    print(out, out.stat().st_size)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

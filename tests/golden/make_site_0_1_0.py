"""Make `site-0.1.0.tar.xz`: what three parties had at home and in their store under release 0.1.0.

Run it with that release, and never with another one; the file is made once and kept:

    git worktree add ../release-0.1.0 f91ea14
    (cd ../release-0.1.0 && make setup && .venv/bin/python <this file> <site-0.1.0.tar.xz>)

It calls the commands that people called then: two trainings of `loans` with a changed
table in between, a rotated secret, a forgotten person, a scoring run, and a training of
`loans_private`, whose model is differentially private. All keys are made here and protect nothing.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import yaml

from opboost_ops.datasets.dataset import Dataset
from opboost_ops.datasets.workspace import write_workspace

ROWS, NEW = 300, 24
#: Forgotten by the bank before the second run.
FORGOTTEN = "P00007"
_LEVELS = ("low", "middle", "high")
_WAYS = ("transfer", "card", "instalments")


def tables(rows: int, prefix: str, seed: int) -> dict[str, pl.DataFrame]:
    """Three parties' tables of made-up people; not everybody is known to all."""
    random = np.random.default_rng(seed)
    ids = np.array([f"{prefix}{i:05d}" for i in range(rows)])
    wealth, strain = random.normal(size=(2, rows))
    income = np.round(np.exp(7.9 + 0.5 * wealth), 2).astype(object)
    income[random.random(rows) < 0.06] = None
    default = random.random(rows) < 1 / (1 + np.exp(1.2 + wealth - 1.5 * strain))
    made = {
        "credit": {
            "age": np.clip(42 + 13 * random.normal(size=rows), 18, 90).round(),
            "amount": np.round(np.exp(8.6 + 0.5 * random.normal(size=rows)), 2),
            "default": default.astype(np.int64),
        },
        "bank": {
            "income": pl.Series(income.tolist(), dtype=pl.Float64),
            "rating": np.array(_LEVELS)[np.searchsorted((-0.5, 0.6), wealth)],
        },
        "shop": {
            "spend": np.round(np.exp(5.6 + 0.5 * wealth), 2),
            "payment": np.array(_WAYS)[np.searchsorted((-0.4, 0.6), strain)],
        },
    }
    known = {name: np.sort(random.permutation(rows)[: rows - rows // 20]) for name in made}
    if prefix == "P":
        known = {n: np.union1d(k, [int(FORGOTTEN[1:])]) for n, k in known.items()}
    return {
        name: pl.DataFrame({"id": ids, **columns})[random.permutation(known[name])]
        for name, columns in made.items()
    }


def declared() -> Dataset:
    """The federation `loans`, as `opboost init` and a little typing would have declared it."""
    new = tables(NEW, "N", 2)
    bit = {"fill": 2500, "bit": {"epsilon": 0.5}}
    return Dataset(
        name="loans",
        task="binary",
        tables=tables(ROWS, "P", 1),
        label_holder="credit",
        label={"column": "default", "task": "binary", "classes": [0, 1]},
        features={
            "credit": {"age": {"bounds": [18, 90]}, "amount": {"bounds": [0, 100_000]}},
            "bank": {
                "income": {"bounds": [300, 30_000], "scale": "log1p", "missing": bit},
                "rating": {"type": "ordinal", "categories": list(_LEVELS)},
            },
            "shop": {
                "spend": {"bounds": [0, 20_000], "scale": "log1p"},
                "payment": {"type": "nominal", "categories": list(_WAYS)},
            },
        },
        holdout=0.25,
        epsilon=0.64,
        domain=(1, 10),
        notes="Generated; nobody's data.",
        new_rows={**new, "credit": new["credit"].drop("default")},
    )


def also_private(folder: Path) -> None:
    """Declare `loans_private` among the same parties: the same columns, and DPBoost."""
    data = yaml.safe_load((folder / "federation.yaml").read_text())
    data["name"] = "loans_private"
    data["training"] = {
        "trainer": "dpboost", "trees": 4, "depth": 3, "holdout": 0.25,
        "private": {"epsilon": 4.0, "trees_per_ensemble": 2, "metrics_epsilon": 1.0},
    }  # fmt: skip
    (folder / "loans_private.yaml").write_text(yaml.safe_dump(data, sort_keys=False))
    for party in data["parties"]:
        path = folder / party / "site.yaml"
        site = yaml.safe_load(path.read_text())
        site["tables"]["loans_private"] = {"train": "tables/train.parquet"}
        path.write_text(yaml.safe_dump(site, sort_keys=False))


def opboost(folder: Path, *words: str) -> None:
    """One command, as in a shell in the parties' folder."""
    command = [str(Path(sys.executable).with_name("opboost")), *words]
    print("$ opboost", *words, flush=True)
    subprocess.run(command, cwd=folder, check=True, env={**os.environ, "COLUMNS": "120"})


def said(folder: Path, name: str, *words: str) -> None:
    """Keep what a command prints as JSON, to compare later releases with."""
    command = [str(Path(sys.executable).with_name("opboost")), *words, "--json"]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    (folder / "said").mkdir(exist_ok=True)
    (folder / "said" / f"{name}.json").write_text(done.stdout)


def live(folder: Path) -> None:
    """What the parties did under 0.1.0."""
    opboost(folder, "run", "federation.yaml", "--trees", "6")
    opboost(folder, "keys", "rotate", "shop", "--yes")
    opboost(folder, "forget", "bank", FORGOTTEN)
    path = folder / "bank" / "tables" / "train.parquet"
    raised = pl.when(pl.int_range(pl.len()) % 9 == 0).then(1.7).otherwise(1.0)
    table = pl.read_parquet(path).with_columns(income=pl.col("income") * raised)
    table.write_parquet(path)
    opboost(folder, "run", "federation.yaml", "--trees", "8")
    opboost(folder, "run", "loans_private.yaml")
    opboost(folder, "score", "federation.yaml")
    for party in ("credit", "bank", "shop"):
        said(folder, f"ledger_{party}", "ledger", "show", party, "--people")
    said(folder, "models_loans", "models", "list", "credit", "--federation", "loans")
    said(folder, "models_private", "models", "list", "credit", "--federation", "loans_private")


def main(out: Path) -> None:
    """Make the file."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "site-0.1.0"
        write_workspace(declared(), folder, training={"trees": 6, "depth": 3, "tolerance": 1.0})
        also_private(folder)
        live(folder)
        for path in folder.rglob("*"):
            if path.is_file() and made.encode() in path.read_bytes():
                # The release wrote where a model lies; a path of its own says no more than /srv.
                path.write_text(path.read_text().replace(made, "/srv"))
                print("moved to /srv:", path.relative_to(folder))
        with tarfile.open(out, "w:xz", preset=9) as archive:
            archive.add(folder, "site-0.1.0", filter=_nobody)
    print(out, out.stat().st_size)


def _nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    main(Path(sys.argv[1]))

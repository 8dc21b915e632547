"""One federation under whichever tree's code the process has; `equal.py` holds two together.

Only what both trees know is named here. What cannot be read without a tree's own code (encrypted
files, states of cells, ledgers) is put down as plain files.
"""

import inspect
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml

ID, LABELS, NAME, HOLDERS = "id", "credit", "equal", ("bank", "shop")


def declared() -> dict[str, dict[str, Any]]:
    """Features of all parties, with every mechanism."""
    bounds = {"bounds": [-3, 3]}
    filled = {"missing": {"fill": 0, "bit": {"epsilon": 0.5}}}
    kinds = {"type": "nominal", "categories": ["rent", "own", "other"]}
    grades = {"type": "ordinal", "categories": ["low", "middle", "high"]}

    def by(name: str, **parameters: Any) -> dict[str, Any]:
        return {"mechanism": {"name": name, "epsilon": 1.0, **parameters}}

    return {
        LABELS: {"age": {}, "debt": {"missing": "keep"}, "job": {"type": "nominal"}},
        "bank": {
            "income": {**bounds, **by("global_map")},
            "amount": {**bounds, **by("adj_map", theta=4)},
            "gaps": {**bounds, **filled, **by("global_map", sampler="bounded_laplace")},
            "home": {**kinds, **by("unary")},
        },
        "shop": {
            "visits": {**bounds, **by("local_map", theta=4)},
            "basket": {**bounds, **by("bucket_response", buckets=4)},
            "grade": {**grades, **by("grr")},
            "spent": {"bounds": [-3, 3], "scale": {"edges": [-2, -1, 0, 0.5, 2]}, **by("grr")},
            "late": {**bounds, **by("piecewise")},
        },
    }


def run(folder: Path) -> None:
    """All runs under this process's code, and what cannot be read without it."""
    from opboost_ops.config.loading import load_federation, load_site
    from opboost_ops.datasets.dataset import Dataset
    from opboost_ops.datasets.workspace import write_workspace
    from opboost_ops.run.local import run_federation

    def read(use: str) -> dict[str, pl.DataFrame]:
        return {p: pl.read_parquet(folder / f"tables/{use}-{p}.parquet") for p in declared()}

    dataset = Dataset(
        name=NAME,
        task="binary",
        tables=read("train"),
        label_holder=LABELS,
        label={"column": "label", "task": "binary", "classes": [0, 1]},
        features=declared(),
        holdout=0.25,
        epsilon=1.0,
        domain=(1, 16),
        notes="",
        new_rows=read("score"),
    )
    # Policies that a tree writes may have caps of its own.
    known = inspect.signature(write_workspace).parameters
    plain: dict[str, Any] = {"capped": False} if "capped" in known else {}
    training = {"trees": 30, "depth": 3}
    file = write_workspace(dataset, folder / "w", seed=21, training=training, **plain)
    for party in HOLDERS:
        capped(file.parent / party / "policy.yaml")
    runs = {"first": run_federation(file, {}).run}
    runs["score"] = run_federation(file, {}, purpose="score").run
    for party, again in read("again").items():
        again.write_parquet(file.parent / party / "tables" / "train.parquet")
    runs["again"] = run_federation(file, {}).run
    federation = load_federation(file)
    sites = {party: load_site(file.parent / party / "site.yaml") for party in federation.parties}
    opened(folder, runs, sites)


def capped(policy: Path) -> None:
    """Let cells change once at most, but for one column's, whose cells go on with what they had."""
    said = yaml.safe_load(policy.read_text())
    for i, rule in enumerate(said["features"].values()):
        rule["max_changes"] = 2 if i else 1
    policy.write_text(yaml.safe_dump(said, sort_keys=False))


def opened(folder: Path, runs: dict[str, str], sites: dict[str, Any]) -> None:
    """Put down what only the tree's own code can read: artifacts, cell states, ledgers."""
    from typer.testing import CliRunner

    from opboost_ops.cli import app
    from opboost_ops.exchange.encryption import SUFFIX, PrivateKey
    from opboost_ops.exchange.manifest import MANIFEST, parse_manifest

    try:
        from opboost_ops.exchange.salting import unsalted
        from opboost_ops.privacy.cell_files import CellFiles
        from opboost_ops.scratch.arrays import Scratch

        states = {party: CellFiles(site.cells, Scratch(folder)) for party, site in sites.items()}
    except ImportError:
        from opboost_ops.privacy.cells import Cells

        def unsalted(raw: bytes, _: str) -> bytes:
            return raw

        states = {party: Cells(site.cells) for party, site in sites.items()}
    keys = [PrivateKey.from_file(site.encryption_key) for site in sites.values()]
    (folder / "runs.json").write_text(json.dumps(runs))
    for name, run in runs.items():
        for path in (folder / "w" / "exchange" / NAME / run).rglob(MANIFEST):
            manifest = parse_manifest(path.read_bytes(), str(path))
            at = folder / "opened" / name / manifest.kind / manifest.about
            at.mkdir(parents=True)
            facts = {
                "columns": manifest.columns,
                "rows": manifest.rows,
                "losses": {k: v.model_dump(mode="json") for k, v in manifest.losses.items()},
            }
            (at / "facts.json").write_text(json.dumps(facts, sort_keys=True, default=str))
            for file in manifest.files:
                raw = path.with_name(file).read_bytes() if manifest.encrypted_to is None else b""
                if manifest.encrypted_to:
                    sealed = path.with_name(file + SUFFIX).read_bytes()
                    raw = unsalted(decrypted(keys, sealed, manifest.digest, file), file)
                (at / file).write_bytes(raw)
    for party, state in states.items():
        for column, paths in state.columns().items():
            for path in paths:
                read = state.load(path)
                at = folder / "states" / party
                at.mkdir(parents=True, exist_ok=True)
                found = {"people": read.people, "seen": read.seen, "last": read.last}
                np.savez(at / f"{column}-{path.stem[37:]}.npz", **found)
        words = ["ledger", "show", str(folder / "w" / party), "--people", "--json"]
        told = CliRunner().invoke(app, words)
        (folder / f"ledger-{party}.json").write_text(told.output)


def decrypted(keys: list[Any], raw: bytes, digest: str, name: str) -> bytes:
    """A file, by the key of the party to which it is encrypted."""
    from opboost_ops.errors import OpBoostError

    for key in keys:
        try:
            return bytes(key.decrypt(raw, digest, name))
        except OpBoostError:
            continue
    raise SystemExit(f"No party's key opens {name}.")


if __name__ == "__main__":
    run(Path(sys.argv[1]))

"""Compares what two trees make of the same tables, keys and seeds.

Each tree builds a site of its own from one folder of tables and one public seed, with its own copy
of this script and in its own environment (``.venv``, where it has one). Both run training, scoring,
training on tables of which a third of the cells have changed, and training again on the same
tables. Formats may differ between trees; what people get must not, and is compared by people's IDs:

- ``protected``: each feature holder's randomised values and ranks,
- ``opened``: the ranks and values that the label holder opens,
- ``model``: the model's text, without its header of parameters,
- ``metrics``: the metrics by which versions are compared,
- ``scores``: predictions for new people,
- ``charges``: the loss that each feature has spent, as ``opboost ledger show`` prints it.

A difference is listed with its size, and the command ends with 1. Noise of a public seed is the
same where trees draw it in the same way. With ``--epsilon 48`` nearly every response is the value
itself, so that trees are compared whose noise differs; unary encoding is left out then, whose
response to a present category stays a fair coin.

A tree is a git worktree. One that lacks this script takes it from elsewhere with ``--script``.
"""

import argparse
import itertools
import json
import math
import os
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

HERE = Path(__file__).resolve().parent.parent
LABELS, NAME, HOLDERS = "credit", "equal", ("bank", "shop")
#: Name and purpose of each run; before the run ``changed`` the tables are exchanged.
RUNS = (("first", "train"), ("new", "score"), ("changed", "train"), ("same", "train"))
SEED = 21
#: From here on, every mechanism but unary encoding hardly ever answers anything but the value.
EXACT = 32.0
#: Results are compared to this relative precision: the order of rows changes sums of floats.
PRECISION = 1e-9


def main() -> int:
    """Run both trees and list what differs.

    Returns:
        0, or 1 if anything differs.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("former", type=Path, help="another tree")
    parser.add_argument("--script", type=Path, help="script of the other tree (default: its own)")
    parser.add_argument("--rows", type=int, default=2000, help="people of the label holder")
    parser.add_argument("--epsilon", type=float, default=1.0, help="epsilon of each feature")
    parser.add_argument("--site", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.site:
        results = arguments.former
        results.mkdir()
        write_results(results, arguments.site, arguments.epsilon)
        return 0
    former = arguments.former.resolve()
    scripts = {former: arguments.script or former / "benchmarks/equal.py", HERE: Path(__file__)}
    with tempfile.TemporaryDirectory() as folder:
        tables = Path(folder) / "tables"
        write_tables(tables, arguments.rows)
        results = [Path(folder) / "former", Path(folder) / "present"]
        for place, (tree, script) in zip(results, scripts.items(), strict=True):
            python = tree / ".venv/bin/python"
            command = [python if python.exists() else sys.executable, script.resolve(), place]
            subprocess.run(
                [*command, "--site", tables, "--epsilon", str(arguments.epsilon)],
                env={**os.environ, "PYTHONPATH": str(tree)},
                cwd=tree,
                check=True,
                stdout=subprocess.DEVNULL,
            )
        return report(*results)


def report(former: Path, present: Path) -> int:
    """Print how many results of each kind are equal, and what differs."""
    equal: dict[str, list[int]] = {}
    different = {}
    names = {path.relative_to(place) for place in (former, present) for path in place.rglob("*.*")}
    for name in sorted(names):
        difference = compare(former / name, present / name)
        counts = equal.setdefault(name.parts[0], [0, 0])
        counts[0] += difference is None
        counts[1] += 1
        if difference is not None:
            different[str(name)] = difference
    shares = {kind: f"{same} of {every}" for kind, (same, every) in equal.items()}
    print(json.dumps({"equal": shares, "different": different}, indent=1))
    return int(bool(different))


def compare(former: Path, present: Path) -> str | None:
    """Difference between two results in words; None if they are equal."""
    for path, tree in ((former, "former"), (present, "present")):
        if not path.exists():
            return f"missing in the {tree} tree"
    if former.suffix == ".parquet":
        return _compare_tables(pl.read_parquet(former), pl.read_parquet(present))
    if former.suffix == ".json":
        former_facts, present_facts = (
            dict(_leaves(json.loads(path.read_text()))) for path in (former, present)
        )
        changed = [
            f"{name}: {former_facts.get(name)} -> {present_facts.get(name)}"
            for name in sorted(former_facts.keys() | present_facts.keys())
            if not _close(former_facts.get(name), present_facts.get(name))
        ]
        return "; ".join(changed) or None
    lines = [path.read_text().splitlines() for path in (former, present)]
    pairs = itertools.zip_longest(*lines)
    count = sum(before != after for before, after in pairs)
    return f"{count} of {max(map(len, lines))} lines" if count else None


def _compare_tables(former: pl.DataFrame, present: pl.DataFrame) -> str | None:
    if former.columns != present.columns:
        return f"columns {former.columns} -> {present.columns}"
    if not former["id"].equals(present["id"]):
        return f"{former.height} -> {present.height} people, not the same ones"
    counts = {
        name: sum(not _close(*pair) for pair in zip(former[name], present[name], strict=True))
        for name in former.columns
    }
    return ", ".join(f"{name}: {n} of {former.height}" for name, n in counts.items() if n) or None


def _close(former: Any, present: Any) -> bool:
    if isinstance(former, float) and isinstance(present, int | float):
        return math.isclose(former, present, rel_tol=PRECISION)
    return bool(former == present)


def _leaves(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _leaves(inner, f"{name}[{number}]")
    else:
        yield name, value


def write_tables(folder: Path, rows: int) -> None:
    """Write the tables of all parties to train on and to score, and changed ones to train on."""
    rng = np.random.default_rng(SEED)
    kinds, grades = ["rent", "own", "other"], ["low", "middle", "high"]

    def column(name: str, count: int) -> pl.Series:
        if name in ("job", "home", "grade"):
            return pl.Series(rng.choice(grades if name == "grade" else kinds, count))
        values = pl.Series(rng.normal(size=count).round(3))
        gaps = pl.Series(rng.random(count) < (0.05 if name in ("gaps", "debt") else 0))
        return pl.select(pl.when(~gaps).then(values)).to_series()

    people = rows + rows // 4
    uses = {"train": np.arange(people), "score": np.arange(people, people + rows // 2)}
    for (use, ids), (party, features) in itertools.product(uses.items(), declared(1.0).items()):
        # Nobody has everybody, and each has its people in an order of its own.
        own = rng.permutation(ids)[: len(ids) * 9 // 10]
        table = pl.DataFrame(
            {
                "id": pl.Series([f"p{i:06d}" for i in own]),
                **{name: column(name, len(own)) for name in features},
            }
        )
        if party == LABELS and use == "train":
            label = pl.Series("label", (rng.random(len(own)) < 0.4).astype(np.int64))
            table = table.with_columns(label)
        (folder / use).mkdir(parents=True, exist_ok=True)
        table.write_parquet(folder / use / f"{party}.parquet")
        if use == "train":
            here = pl.Series(rng.random(len(own)) < 1 / 3)
            changed = [column(name, len(own)).zip_with(here, table[name]) for name in features]
            (folder / "changed").mkdir(exist_ok=True)
            table.with_columns(
                series.alias(name) for name, series in zip(features, changed, strict=True)
            ).write_parquet(folder / "changed" / f"{party}.parquet")


def declared(epsilon: float) -> dict[str, dict[str, Any]]:
    """Features of all parties, with every mechanism."""
    bounds = {"bounds": [-3, 3]}
    filled = {"missing": {"fill": 0, "bit": epsilon / 2}}
    homes = {"type": "nominal", "categories": ["rent", "own", "other"]}
    grades = {"type": "ordinal", "categories": ["low", "middle", "high"]}

    def by(name: str, **parameters: Any) -> dict[str, Any]:
        return {"mechanism": {"name": name, "epsilon": epsilon, **parameters}}

    unary = {"home": {**homes, **by("unary")}} if epsilon < EXACT else {}
    return {
        LABELS: {"age": {}, "debt": {"missing": "keep"}, "job": {"type": "nominal"}},
        "bank": {
            "income": {**bounds, **by("global_map")},
            "amount": {**bounds, **by("adj_map", theta=4)},
            "gaps": {**bounds, **filled, **by("global_map")},
            **unary,
        },
        "shop": {
            "visits": {**bounds, **by("local_map", theta=4)},
            "basket": {**bounds, **by("bucket_response", buckets=4)},
            "grade": {**grades, **by("grr")},
            "spent": {"bounds": [-3, 3], "scale": {"edges": [-2, -1, 0, 0.5, 2]}, **by("grr")},
            "late": {**bounds, **by("piecewise")},
        },
    }


def write_results(results: Path, tables: Path, epsilon: float) -> None:
    """Build a site of this tree, do all runs, and write their results in forms of no tree."""
    from opboost_ops.api import ledger
    from opboost_ops.config.loading import load_federation
    from opboost_ops.pipeline.party.inbox import Run
    from opboost_ops.pipeline.party.party_sites import site_files
    from opboost_ops.pipeline.phases import steps
    from opboost_ops.pipeline.runner.opening import open_run
    from opboost_ops.pipeline.runner.runner import run_stage

    # Keys of a month are drawn when they are first needed: in both trees the same ones.
    rng = np.random.default_rng(SEED)
    secrets.token_bytes = lambda nbytes=None: rng.bytes(nbytes or 32)
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder) / "site"
        file = build_site(site, tables, epsilon)
        federation = load_federation(file)
        for party, path in site_files(file, federation).items():
            os.environ[f"OPBOOST_SITE_{party.upper()}"] = str(path)
        for number, (name, purpose) in enumerate(RUNS):
            if name == "changed":
                for party in (LABELS, *HOLDERS):
                    changed = (tables / "changed" / f"{party}.parquet").read_bytes()
                    (site / party / "tables/train.parquet").write_bytes(changed)
            run = Run(NAME, f"{number:016x}", LABELS)
            open_run(file, run.run, {}, purpose)
            for party, stage in steps(federation, purpose):
                run_stage(party, stage, run)
            extract(results, site, name, run.run)
        for party in HOLDERS:
            columns = ledger(site / party).columns
            losses = dict(columns.select("feature", "spent").rows())
            write(results / "charges" / f"{party}.json", json.dumps(losses).encode())


def build_site(site: Path, tables: Path, epsilon: float) -> Path:
    """Write the federation and all parties' sites.

    Returns:
        The path of ``federation.yaml``.
    """
    from opboost_ops.extras.datasets.tables import Dataset
    from opboost_ops.extras.datasets.workspace import write_workspace

    features = declared(epsilon)
    read = {
        use: {party: pl.read_parquet(tables / use / f"{party}.parquet") for party in features}
        for use in ("train", "score")
    }
    dataset = Dataset(
        name=NAME,
        task="binary",
        tables=read["train"],
        label_holder=LABELS,
        label={"column": "label", "task": "binary", "classes": [0, 1]},
        features=features,
        holdout=0.2,
        epsilon=epsilon,
        domain=(1, 16),
        new_rows=read["score"],
    )
    training = {"trees": 30, "depth": 3}
    return write_workspace(dataset, site, seed=SEED, training=training, capped=False)


def extract(results: Path, site: Path, name: str, run: str) -> None:
    """Write what a run left at all parties, by people's IDs."""
    use = "score" if dict(RUNS)[name] == "score" else "train"
    ids = {
        party: pl.read_parquet(site / party / f"tables/{use}.parquet", columns=["id"])
        for party in (LABELS, *HOLDERS)
    }
    homes = {party: site / party / "home" / NAME / run for party in ids}
    for party in HOLDERS:
        for table in ("randomised", "ranks"):
            if (path := homes[party] / f"{table}.arrow").exists():
                place = results / "protected" / f"{name}-{table}-{party}"
                by_id(ids[party], pl.read_ipc(path), place)
        positions = pl.read_ipc(homes[LABELS] / "alignment.arrow")["position"]
        opened = pl.read_ipc(homes[LABELS] / f"opened-{party}.arrow")
        by_id(ids[LABELS][positions], opened, results / "opened" / f"{name}-{party}")
    if use == "score":
        (scores,) = (site / LABELS / "scores" / NAME).rglob("*.parquet")
        table = pl.read_parquet(scores).select("id", pl.selectors.float())
        by_id(table.select("id"), table.drop("id"), results / "scores" / name)
        return
    version = site / LABELS / "models" / NAME / run
    model = (version / "model.txt").read_text().split("\nparameters:")[0]
    write(results / "model" / f"{name}.txt", model.encode())
    metrics = json.loads((version / "evaluation.json").read_text())["metrics"]
    write(results / "metrics" / f"{name}.json", json.dumps(metrics).encode())


def by_id(ids: pl.DataFrame, table: pl.DataFrame, path: Path) -> None:
    """Write a table in the order of IDs."""
    path.parent.mkdir(exist_ok=True)
    pl.concat([ids, table], how="horizontal").sort("id").write_parquet(f"{path}.parquet")


def write(path: Path, content: bytes) -> None:
    """Write a result."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)


if __name__ == "__main__":
    sys.exit(main())

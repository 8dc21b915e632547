"""Seconds of a whole federation, stage by stage, beside LightGBM alone on the same matrix.

A generated table, so speeds only: its accuracy means nothing. Each repeat runs the federation and
LightGBM alone by turns, and the least of each counts: the machine may be busy with other work,
which disturbs the processor's seconds (summed over threads) least and the wall clock's most.
``model`` are the stages to the model on domain values, protection, exchange and accounts
included; ``all`` adds what follows: metrics, a second model of the label holder's columns alone to
compare with, importance of features, card and registry. Of stages that parties run side by side
the slowest counts. ``all_with_checks`` is what everybody pays: all parties' stages added up, data
quality included. Finding the common people is in no ratio; it is ``alignment_seconds`` of the
processor, of all parties. ``bytes`` are what crossed the exchange, by kind of artifact.
"""

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from opboost_ops.extras.datasets.tables import ID, Dataset, row_ids
from opboost_ops.extras.datasets.workspace import write_workspace
from opboost_ops.learning.boosters import trainer
from opboost_ops.learning.boosters.trainer import Frame, Parameters
from opboost_ops.pipeline.runner.facts import artifact_sizes
from opboost_ops.pipeline.runner.local import Finished, run_federation

LABELS = "party_labels"
#: Stages that find the common people.
ALIGNMENT = ("digest_ids", "psi_query", "psi_answer", "seal", "open_rows")
#: Stages that plain training has nothing to be compared with: metrics, card and registry.
AFTER = ("evaluate", "register", "announce_champion")


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--features", type=int, default=11)
    parser.add_argument("--trees", type=int, default=200)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--parties", type=int, default=3, help="the label holder included")
    parser.add_argument("--epsilon", type=float, default=1.28)
    parser.add_argument("--values", type=int, default=10, help="of the domain, from 1 on")
    parser.add_argument("--repeats", type=int, default=3, help="the least is printed")
    parser.add_argument("--json", action="store_true", help="one line")
    parser.add_argument("--tables", action="store_true", help="stages and bytes, as Markdown")
    options = parser.parse_args()
    matrix, label = generate(options.rows, options.features)
    # Once unmeasured, so that LightGBM's import and threads count for nobody.
    alone_seconds(options, matrix, label)
    runs = [one_run(options, matrix, label) for _ in range(options.repeats)]
    alone = [alone_seconds(options, matrix, label) for _ in range(options.repeats)]
    result = summed(options, runs, alone)
    if options.tables:
        print(stage_table(result), byte_table(result), sep="\n\n")
    else:
        print(json.dumps(result, indent=None if options.json else 1))


def stage_table(result: dict[str, Any]) -> str:
    """Processor seconds of all parties by stage, its checks in a column of their own."""
    checks, whole = result["checks_processor"], result["processor_of_all_parties"]
    total = sum(whole.values()) + sum(checks.values())
    lines = ["| stage | processor s | its checks | share |", "| --- | --- | --- | --- |"]
    for name, took in whole.items():
        more = checks.get(name, 0.0)
        share = f"{(took + more) / total:.1%}"
        lines.append(f"| `{name}` | {took:.3f} | {more:.3f} | {share} |")
    return "\n".join(
        [*lines, f"| all | {sum(whole.values()):.3f} | {sum(checks.values()):.3f} | |"]
    )


def byte_table(result: dict[str, Any]) -> str:
    """Bytes that crossed the exchange by kind of artifact, and a row of the table."""
    sent = result["bytes"]
    total = sum(sent.values())
    lines = ["| artifact | bytes | a row | share |", "| --- | --- | --- | --- |"]
    for kind, size in sorted(sent.items(), key=lambda item: -item[1]):
        lines.append(f"| `{kind}` | {size:,} | {size / result['rows']:.2f} | {size / total:.1%} |")
    entropy = f"The ranks' entropy: {result['ranks_entropy']:,.0f} bytes."
    return "\n".join([*lines, f"| all | {total:,} | {total / result['rows']:.2f} | |", "", entropy])


def summed(
    options: Any, runs: list[dict[str, Any]], alone: list[tuple[float, float]]
) -> dict[str, Any]:
    """The least of all repeats, and its ratio to LightGBM alone."""
    plain = [*alone, *(run.pop("lightgbm") for run in runs)]
    wall, processor = (min(pair) for pair in zip(*plain, strict=True))
    best = min(runs, key=lambda run: run["processor_all"])
    # Of all processes that have ended, the largest: in KiB.
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    table = 8 * options.rows * options.features
    return {
        **vars(options),
        "load": [round(share, 1) for share in os.getloadavg()],
        **best,
        "lightgbm_seconds": round(wall, 6),
        "lightgbm_processor": round(processor, 6),
        "ratio_model": round(min(r["processor_model"] for r in runs) / processor, 3),
        "ratio_all": round(min(r["processor_all"] for r in runs) / processor, 3),
        "ratio_all_with_checks": round(
            min(r["processor_all_with_checks"] for r in runs) / processor, 3
        ),
        "ratio_model_wall": round(min(r["seconds_model"] for r in runs) / wall, 3),
        "ratio_all_wall": round(min(r["seconds_all"] for r in runs) / wall, 3),
        "table_bytes": table,
        "peak_bytes_of_a_process": peak,
        "peak_over_table": round(peak / table, 2),
    }


def generate(rows: int, features: int) -> tuple[np.ndarray, np.ndarray]:
    """A seeded table and a label that depends on it."""
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(rows, features)).round(3)
    score = matrix @ rng.normal(size=features) + rng.normal(size=rows)
    return matrix, (score > 0).astype(np.int64)


def one_run(options: Any, matrix: np.ndarray, label: np.ndarray) -> dict[str, Any]:
    """One federation run, and LightGBM alone beside it."""
    names = [f"x{i}" for i in range(options.features)]
    shares = np.array_split(np.arange(options.features), options.parties)
    ids = row_ids("row", options.rows)
    tables, declared = {}, {}
    for i, share in enumerate(shares):
        party = f"party_{i:02d}" if i else LABELS
        columns: dict[str, Any] = {ID: ids, **{names[j]: matrix[:, j] for j in share}}
        if i == 0:
            columns["label"] = label
        tables[party] = pl.DataFrame(columns)
        declared[party] = {names[j]: {} if i == 0 else {"bounds": [-4, 4]} for j in share}
    dataset = Dataset(
        name="pipeline",
        task="binary",
        tables=tables,
        label_holder=LABELS,
        label={"column": "label", "task": "binary", "classes": [0, 1]},
        features=declared,
        holdout=0.2,
        epsilon=options.epsilon,
        domain=(1, options.values),
    )
    with tempfile.TemporaryDirectory() as folder:
        training = {"trees": options.trees, "depth": options.depth}
        path = write_workspace(dataset, Path(folder) / "w", training=training)
        done = run_federation(path, {})
        sent = artifact_sizes(path.parent / LABELS / "site.yaml", done.federation.name, done.run)
    kinds: Counter[str] = Counter()
    for place, size in sent["artifacts"].items():
        kinds[place.split("/")[0]] += size
    seconds, quality = done.seconds(), done.seconds("quality_seconds")
    processor, checks = (
        done.seconds("processor_seconds"),
        _together(done, "quality_processor_seconds"),
    )
    everybody = _together(done, "processor_seconds")
    with_checks = sum(checks.values())
    with_checks += sum(s for name, s in everybody.items() if name not in ALIGNMENT)

    def total(spent: dict[str, float], without: tuple[str, ...]) -> float:
        return round(sum(s for name, s in spent.items() if name not in without), 6)

    return {
        "seconds": seconds,
        "processor": processor,
        "alignment_seconds": round(sum(everybody.get(name, 0.0) for name in ALIGNMENT), 6),
        "checks_processor": {name: round(s, 6) for name, s in checks.items() if s},
        "processor_of_all_parties": {name: round(s, 6) for name, s in everybody.items()},
        "processor_checks": round(sum(checks.values()), 6),
        "share_of_checks": round(sum(checks.values()) / with_checks, 4),
        "processor_all_with_checks": round(with_checks, 6),
        "processor_model": total(processor, (*AFTER, *ALIGNMENT)),
        "processor_all": total(processor, ALIGNMENT),
        "seconds_model": total(seconds, (*AFTER, *ALIGNMENT)),
        "seconds_all": total(seconds, ALIGNMENT),
        "quality_seconds": round(sum(quality.values()), 6),
        "bytes": dict(kinds),
        "ranks_entropy": sent["ranks_entropy"],
        "lightgbm": alone_seconds(options, matrix, label),
    }


def _together(done: Finished, key: str) -> dict[str, float]:
    """Seconds by stage, those of all parties added up."""
    found: dict[str, float] = {}
    for stages in done.spent.values():
        for stage, spent in stages.items():
            found[stage] = found.get(stage, 0.0) + spent.get(key, 0.0)
    return found


def alone_seconds(options: Any, matrix: np.ndarray, label: np.ndarray) -> tuple[float, float]:
    """LightGBM alone on the whole matrix with the federation's parameters.

    Seconds by the wall's and by the processor's clock.
    """
    names = tuple(f"x{i}" for i in range(options.features))
    frame = Frame(names, np.asfortranarray(matrix), (), ())
    parameters = Parameters("binary", 2, options.trees, 0.1, options.depth, 0)
    begin, processor = time.perf_counter(), time.process_time()
    trainer.train(frame, label.astype(float), parameters)
    return time.perf_counter() - begin, time.process_time() - processor


if __name__ == "__main__":
    sys.exit(main())

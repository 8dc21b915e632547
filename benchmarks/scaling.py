"""What a feature holder's whole part costs as its table grows: seconds per cell, memory, disk.

A generated table, written block by block, so that it is never whole in memory, and two parties in
a process each: a label holder with IDs and labels, and a feature holder with all features;
``--holders`` makes more of these, of one size, of which the first is shown. Every
stage goes through `runner.run_stage`, one after the other, up to the feature holder's last,
``answer_splits``; of the label holder's, what comes before it.
With ``--score`` a model of few rows is trained first, and so many new rows are scored by it: the
figures are of all stages of the scoring run then. With ``--later`` the run is followed by that of
a later night of the same month, before which such a share of everybody has left and as many have
come; its stages and bytes are under ``later``.

Each stage has a process of its own, forked from one that has imported what Airflow's do before they
fork tasks. Peaks are of resident memory, libraries and mapped files included;
``--table`` prints them as docs/scaling.md has them. Data quality counts for the peaks, and is timed
apart. Rows are given smallest first; ratios are to the first. The machine may be busy with other
work, which disturbs the processor's seconds least and the wall clock's most.
"""

import argparse
import gc
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from benchmarks.measure import forget_peak, parser_of, show, status
from opboost_ops.config.loading import load_federation, site_file
from opboost_ops.extras.datasets.tables import ID, Dataset
from opboost_ops.extras.datasets.workspace import write_workspace
from opboost_ops.pipeline.party.inbox import Run
from opboost_ops.pipeline.party.party_sites import site_files
from opboost_ops.pipeline.phases import steps
from opboost_ops.pipeline.runner import fork_server
from opboost_ops.pipeline.runner.facts import spent_by
from opboost_ops.pipeline.runner.runner import run_stage

HOLDER, LABELS, NAME = "bank", "credit", "scaling"
RUNS = {"train": "0" * 16, "score": "1" * 16, "later": "2" * 16}
#: Rows that the model is trained on by which more are scored.
TRAINED = 20_000
GROUP = 262_144


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = parser_of(__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--features", type=int, default=10)
    parser.add_argument("--holders", type=int, default=1, help="feature holders, of one size")
    parser.add_argument(
        "--score", nargs="?", const="desensitised", choices=["desensitised", "routed"],
        help="new rows, in a mode",
    )  # fmt: skip
    parser.add_argument("--later", type=float, help="share of people who are new in a later run")
    parser.add_argument("--table", action="store_true", help="peaks of memory, as Markdown")
    parser.add_argument("--party", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.party:
        serve(options.party)
        return
    found = [measured(rows, options) for rows in options.rows]
    for each in found:
        for kind in ("seconds", "processor"):
            each[f"ratio_{kind}_per_cell"] = round(
                each[f"{kind}_per_million_cells"] / found[0][f"{kind}_per_million_cells"], 3
            )
    result = {
        "features": options.features,
        "holders": options.holders,
        "sizes": found,
    }
    if options.table:
        print(peaks(found))
        return
    show(result, options)


def peaks(found: list[dict[str, Any]]) -> str:
    """A Markdown table: each stage's peak at each size, and by how much it grows a row."""
    sizes = [each["rows"] for each in found]
    lines = ["| | stage | " + " | ".join(f"{rows:,} rows" for rows in sizes) + " | bytes per row |"]
    lines.append("| --- " * (len(sizes) + 3) + "|")
    for party in (HOLDER, LABELS):
        for stage in found[0]["stages"][party]:
            took = [each["stages"][party][stage]["peak"] for each in found]
            more = (took[-1] - took[0]) * 2**20 / (sizes[-1] - sizes[0] or 1)
            cells = [party, f"`{stage}`", *(f"{peak:,} MiB" for peak in took), f"{more:.0f}"]
            lines.append("| " + " | ".join(cells) + " |")
    idle = ", ".join(str(max(each["libraries_mib"].values())) for each in found)
    return "\n".join([*lines, "", f"Libraries alone: {idle} MiB. Load: {found[-1]['load']}."])


def measured(rows: int, options: argparse.Namespace) -> dict[str, Any]:
    """One run at one size."""
    purpose = "score" if options.score else "train"
    with tempfile.TemporaryDirectory() as folder:
        file = workspace(Path(folder) / "w", rows, options)
        federation = load_federation(file)
        sites = site_files(file, federation)
        parties = {party: started(party, sites[party]) for party in federation.parties}
        before = {party: asked(process, "")["now"] for party, process in parties.items()}
        stages: dict[str, dict[str, Any]] = {}
        for each in dict.fromkeys(("train", purpose)):
            stages = run_of(each, file, parties, whole=bool(options.score))
        later: dict[str, Any] = {}
        if options.later is not None:
            others = round(options.later * rows)
            names = [f"x{i}" for i in range(options.features)]
            for party in parties:
                table = file.parent / party / "tables" / "train.parquet"
                write(table, blocks(party, names, rows, others))
            later = {"stages": run_of("later", file, parties)}
            later["bytes_per_row"] = sent(file.parent, "later", rows)
        for process in parties.values():
            asked(process, "end")
            process.wait()
        sizes = {
            "table": (file.parent / HOLDER / "tables" / f"{purpose}.parquet").stat().st_size,
            "home": size(file.parent / HOLDER / "home"),
            "cells": size(file.parent / HOLDER / "cells"),
            "store": size(file.parent / "exchange" / NAME),
        }
        crossed = sent(file.parent, purpose, rows)
    own = stages[HOLDER].values()
    cells = rows * options.features
    total = {
        name: sum(stage[name] for stage in own)
        for name in ("seconds", "processor_seconds", "quality_seconds", "quality_processor")
    }
    return {
        "rows": rows,
        "load": [round(share, 1) for share in os.getloadavg()],
        "seconds_per_million_cells": round(1e6 * total["seconds"] / cells, 4),
        "processor_per_million_cells": round(1e6 * total["processor_seconds"] / cells, 4),
        "quality_seconds_per_million_cells": round(1e6 * total["quality_seconds"] / cells, 4),
        "quality_processor_per_million_cells": round(1e6 * total["quality_processor"] / cells, 4),
        "peak_mib": {
            party: max(stage["peak"] for stage in done.values()) for party, done in stages.items()
        },
        "libraries_mib": before,
        "bytes_per_row": {name: round(content / rows, 1) for name, content in sizes.items()},
        "sent_per_row": crossed,
        "stages": stages,
        **({"later": later} if later else {}),
    }


def run_of(
    name: str, file: Path, parties: dict[str, "subprocess.Popen[str]"], whole: bool = False
) -> dict[str, dict[str, Any]]:
    """What each stage of a run cost, by party, up to the feature holder's last, or to its end."""
    stages: dict[str, dict[str, Any]] = {party: {} for party in parties}
    asked(parties[LABELS], "open_run", name, str(file))
    for party, stage in steps(load_federation(file), "score" if name == "score" else "train"):
        stages[party][stage] = asked(parties[party], stage, name)
        if (party, stage) == (HOLDER, "answer_splits") and not whole:
            break
    return stages


def sent(folder: Path, name: str, rows: int) -> dict[str, float]:
    """Bytes a row of the first feature holder's artifacts of a run, by kind."""
    found = {}
    for kind in sorted((folder / "exchange" / NAME / RUNS[name]).iterdir()):
        if (kind / HOLDER).is_dir():
            found[kind.name] = round(size(kind / HOLDER) / rows, 2)
    return found


def workspace(folder: Path, rows: int, options: argparse.Namespace) -> Path:
    """A federation whose tables are as large as wanted: of new rows, where it is to score."""
    names = [f"x{i}" for i in range(options.features)]
    holders = [HOLDER, *(f"{HOLDER}_{i}" for i in range(2, options.holders + 1))]
    small = {party: next(blocks(party, names, 8)) for party in (LABELS, *holders)}
    declared = {name: {"bounds": [-4, 4]} for name in names}
    tables = {party: pl.DataFrame(pl.from_arrow(table)) for party, table in small.items()}
    dataset = Dataset(
        name=NAME,
        task="binary",
        tables=tables,
        label_holder=LABELS,
        label={"column": "label", "task": "binary", "classes": [0, 1]},
        features={LABELS: {}, **dict.fromkeys(holders, declared)},
        holdout=0.2,
        epsilon=1.28,
        domain=(1, 10),
        new_rows=tables if options.score else {},
    )
    scoring = {"mode": options.score} if options.score else {}
    file = write_workspace(dataset, folder, training={"trees": 20}, scoring=scoring)
    for party in (LABELS, *holders):
        with (folder / party / "site.yaml").open("a") as site:
            # Of processes that multiply points beside a stage, its own peak would say nothing.
            site.write("alignment_processes: 1\n")
        if party != LABELS:
            # Written for the tables' sizes, which were those of a few rows.
            policy = folder / party / "policy.yaml"
            rules = yaml.safe_load(policy.read_text())
            rules["alignment"] |= {"max_new_queries": 3 * rows, "max_queries_total": 9 * rows}
            policy.write_text(yaml.safe_dump(rules))
        tables = folder / party / "tables"
        if options.score:
            write(tables / "score.parquet", blocks(party, names, rows))
        trained = TRAINED if options.score else rows
        write(tables / "train.parquet", blocks(party, names, trained))
    return file


def write(path: Path, read: Iterator[pa.Table]) -> None:
    """Write blocks into a file, which may be there."""
    first = next(read)
    with pq.ParquetWriter(path, first.schema, compression="zstd") as writer:
        for block in itertools.chain([first], read):
            writer.write_table(block)


def blocks(party: str, names: list[str], rows: int, first: int = 0) -> Iterator[pa.Table]:
    """A party's rows, a row group at a time; all parties have the same people, from one on."""
    rng = np.random.default_rng(0)
    for begin in range(first, first + rows, GROUP):
        size = min(GROUP, first + rows - begin)
        columns: dict[str, Any] = {ID: [f"p{i:010d}" for i in range(begin, begin + size)]}
        if party == LABELS:
            columns["label"] = rng.integers(0, 2, size)
        else:
            columns |= {name: rng.normal(size=size).round(3) for name in names}
        yield pa.table(columns)


def started(party: str, site: Path) -> "subprocess.Popen[str]":
    """A party's process, with its own site and nothing else."""
    kept = {
        name: os.environ[name]
        for name in ("PATH", "HOME", "LANG", "PYTHONPATH")
        if name in os.environ
    }
    return subprocess.Popen(
        [sys.executable, __file__, "--party", party],
        env={**kept, f"OPBOOST_SITE_{party.upper()}": str(site)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def asked(
    process: "subprocess.Popen[str]", what: str, purpose: str = "train", argument: str = ""
) -> dict[str, Any]:
    """Let a party's process do something, and hear what it cost."""
    assert process.stdin and process.stdout
    process.stdin.write(f"{what} {purpose} {argument}\n")
    process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        raise SystemExit(f"{what} ended with {process.wait()}")
    told: dict[str, Any] = json.loads(line)
    return told


def serve(party: str) -> None:
    """Be a party: one line of what to do in, one line of what it cost out."""
    from opboost_ops.pipeline.runner.opening import open_run

    fork_server.preload()
    gc.freeze()  # As Airflow's executors do before they fork.
    for line in sys.stdin:
        what, purpose, argument = line.rstrip("\n").split(" ", 2)
        run = Run(NAME, RUNS[purpose], LABELS)
        child = os.fork()
        if child:
            if os.waitpid(child, 0)[1]:
                os._exit(1)
            if what == "end":
                os._exit(0)
            continue
        forget_peak()
        told: dict[str, Any] = {}
        begin = resource.getrusage(resource.RUSAGE_SELF)
        if what == "open_run":
            open_run(Path(argument), run.run, {}, "score" if purpose == "score" else "train")
        elif what and what != "end":
            run_stage(party, what, run)
            told = spent_by(site_file(party), NAME, run.run)[what]
        end = resource.getrusage(resource.RUSAGE_SELF)
        spent = end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime
        kept = ("seconds", "processor_seconds", "quality_seconds")
        told = {name: round(told.get(name, 0.0), 3) for name in kept}
        quality = spent - told["processor_seconds"] if told["quality_seconds"] else 0.0
        told |= {"quality_processor": round(quality, 3), "now": status("VmRSS") // 2**20}
        told["peak"] = status("VmHWM") // 2**20
        print(json.dumps(told), flush=True)
        os._exit(0)


def size(path: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())


if __name__ == "__main__":
    sys.exit(main())

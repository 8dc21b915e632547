"""The papers' workloads, by name: python -m benchmarks.papers accuracy --seeds 3."""

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.papers import experiments, figures, report
from benchmarks.papers.experiment import WORK, Experiment


def main() -> None:
    """Run an experiment, or write the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.papers", description=__doc__)
    commands = parser.add_subparsers(required=True)
    for experiment in experiments():
        _add(commands.add_parser(experiment.name, help=experiment.help), experiment)
    words = "write docs/evaluation*.md and their pictures from the summaries"
    command = commands.add_parser("report", help=words)
    command.set_defaults(run=lambda _: _print(report.write(Path("docs"))))
    command = commands.add_parser("figures", help="draw the pictures of the other documents")
    command.set_defaults(run=lambda _: _print(figures.draw(Path("docs/figures"))))
    chosen = parser.parse_args()
    chosen.run(chosen)


def _add(parser: argparse.ArgumentParser, experiment: Experiment) -> None:
    parser.description = experiment.help
    parser.add_argument("--seeds", type=int, default=experiment.seeds, help="splits and draws")
    for name, default in experiment.options.items():
        several = isinstance(default, tuple)
        kind = type(default[0] if several else default)
        parser.add_argument(f"--{name}", type=kind, nargs="+" if several else None)
    parser.add_argument("--quick", action="store_true", help="a small share of it, in seconds")
    parser.add_argument("--work", type=Path, default=WORK, help="where measurements are cached")
    parser.add_argument("--summary", type=Path, help="write the result there, too, as JSON")
    parser.add_argument("--pictures", type=Path, help="folder for pictures")
    parser.add_argument("--json", action="store_true", help="one line")
    parser.set_defaults(run=lambda chosen: _run(experiment, chosen))


def _run(experiment: Experiment, chosen: argparse.Namespace) -> None:
    given = {name: getattr(chosen, name.replace("-", "_")) for name in experiment.options}
    more = {name: value for name, value in given.items() if value is not None}
    found = experiment.summary(chosen.seeds, more, chosen.quick, chosen.work, _progress)
    if chosen.summary is not None:
        chosen.summary.parent.mkdir(parents=True, exist_ok=True)
        chosen.summary.write_text(_lines(found), encoding="utf-8")
    if chosen.json:
        print(json.dumps(found))
        return
    with tempfile.TemporaryDirectory() as folder:
        print(experiment.section(found, chosen.pictures or Path(folder)))


def _lines(found: Mapping[str, Any]) -> str:
    """A summary as JSON, a line for each row: a change of one row is a change of one line."""
    lines = []
    for name, value in found.items():
        rows = [json.dumps(row) for row in value] if isinstance(value, list) else []
        text = "[\n  " + ",\n  ".join(rows) + "\n ]" if rows else json.dumps(value)
        lines.append(f" {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _progress(done: int, wanted: int) -> None:
    print(f"{done} of {wanted} measurements", end="\n" if done == wanted else "\r", file=sys.stderr)


def _print(paths: Any) -> None:
    for path in paths:
        print(path)


if __name__ == "__main__":
    main()

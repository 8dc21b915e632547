"""Whether this tree is slower than a former commit: both run by turns on this machine.

Each workload is measured in processor seconds of its whole command, or in a figure that it prints;
the least of the turns counts. Prints one JSON line, and ends with 1 if a ratio is above the limit.
Run it on an idle machine, before a release. The former commit is checked out into a temporary
worktree with an environment of its own.
"""

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.beside import measured

HERE = Path(__file__).resolve().parent.parent
LIMIT = 1.10

#: By name: a benchmark, its options, and the figure of it that counts.
WORKLOADS = {
    "small run": ("pipeline.py", "--repeats 1", "command"),
    "a million rows": (
        "pipeline.py",
        "--rows 1000000 --features 10 --trees 80 --depth 3 --parties 2 --repeats 1",
        "command",
    ),
    "alignment of 200,000 people": (
        "pipeline.py",
        "--rows 200000 --features 2 --trees 5 --parties 2 --repeats 1",
        "alignment_seconds",
    ),
    "training in Airflow": (
        "orchestration.py",
        "--dataset credit --repeats 1 --without",
        "command",
    ),
}


def main() -> int:
    """Compare the trees.

    Returns:
        0, or 1 if a workload is slower than the limit allows.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("former", help="a commit, such as the last release's tag")
    parser.add_argument("--turns", type=int, default=5, help="the least of each tree counts")
    parser.add_argument("--only", choices=[*WORKLOADS], nargs="*", default=[*WORKLOADS])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "former"
        git = ["git", "-C", str(HERE), "worktree"]
        subprocess.run([*git, "add", "--detach", "--quiet", tree, asked.former], check=True)
        try:
            subprocess.run(["make", "--silent", "setup"], cwd=tree, check=True, stdout=sys.stderr)
            ratios = {name: ratio(tree, name, asked.turns) for name in asked.only}
        finally:
            subprocess.run([*git, "remove", "--force", tree], check=True)
    print(json.dumps({"former": asked.former, "turns": asked.turns, "limit": LIMIT, **ratios}))
    return int(any(found > LIMIT for found in ratios.values()))


def ratio(former: Path, name: str, turns: int) -> float:
    """This tree's least figure over the former tree's.

    Args:
        former: The other tree.
        name: The workload's.
        turns: How often each is run.
    """
    benchmark, options, figure = WORKLOADS[name]
    words = shlex.split(options)
    found: dict[Path, list[float]] = {former: [], HERE: []}
    for turn in range(turns):
        # Who is first has a colder machine.
        for tree in (former, HERE) if turn % 2 == 0 else (HERE, former):
            python = tree / ".venv" / "bin" / "python"
            found[tree].append(measured(python, tree, benchmark, words)[figure])
    return round(min(found[HERE]) / min(found[former]), 3)


if __name__ == "__main__":
    sys.exit(main())

"""A benchmark of this tree and of a former one, by turns: the least of each figure, and the ratios.

A former tree is a git worktree with an environment of its own (``make setup`` in it), so that each
runs its own code with its own locked packages. Figures that both print under one name are compared,
and what the whole command took of the processor, which needs no name.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Run both and print their figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("former", type=Path, help="another tree with an environment, .venv")
    parser.add_argument("benchmark", help="a file of benchmarks/ that both have and takes --json")
    parser.add_argument("--turns", type=int, default=3, help="the least of each figure counts")
    parser.add_argument("--options", default="", help="for both, in one word of the shell")
    asked = parser.parse_args()
    here, former = Path(__file__).resolve().parent.parent, asked.former.resolve()
    words = shlex.split(asked.options)
    turns: dict[str, list[dict[str, float]]] = {"former": [], "present": []}
    for _ in range(asked.turns):
        python = former / ".venv/bin/python"
        turns["former"].append(measured(python, former, asked.benchmark, words))
        python = Path(sys.executable)
        turns["present"].append(measured(python, here, asked.benchmark, words))
    least = {
        tree: {name: min(each[name] for each in found) for name in found[0]}
        for tree, found in turns.items()
    }
    before, now = least["former"], least["present"]
    ratio = {name: round(now[name] / before[name], 3) for name in now if before.get(name)}
    result = {"turns": asked.turns, "load": round(os.getloadavg()[0], 1), **least, "ratio": ratio}
    print(json.dumps(result))


def measured(python: Path, tree: Path, benchmark: str, options: list[str]) -> dict[str, float]:
    """The numbers that a benchmark prints, by name, and ``command``: its processor seconds."""
    begun = os.times()
    out = subprocess.run(
        [str(python), f"benchmarks/{benchmark}", *options, "--json"],
        cwd=tree,
        # Whatever an environment has installed: the tree's own code.
        env={**os.environ, "PYTHONPATH": str(tree)},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    ended = os.times()
    spent = (
        ended.children_user + ended.children_system - begun.children_user - begun.children_system
    )
    return {**numbers(json.loads(out.splitlines()[-1])), "command": round(spent, 3)}


def numbers(found: Any, name: str = "") -> dict[str, float]:
    """Every number of nested objects and lists, by its path with dots."""
    if isinstance(found, bool) or found is None or isinstance(found, str):
        return {}
    if isinstance(found, (int, float)):
        return {name: float(found)}
    items = found.items() if isinstance(found, dict) else enumerate(found)
    inner = (numbers(value, f"{name}.{key}".lstrip(".")) for key, value in items)
    return {path: value for each in inner for path, value in each.items()}


if __name__ == "__main__":
    main()

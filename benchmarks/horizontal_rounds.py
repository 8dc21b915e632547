"""Rounds of horizontal learning: processor seconds, bytes and waiting, beside a former tree's.

Each tree's own code is measured in a process of its own, with a process a party that meet over a
folder, one after the other in turn. Whether a message was there while a party still slept is told
by the folder's own clock.
"""

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

#: Run with a tree in front of the path: it knows what former and present code have in common.
_MEASURE = """
import json, math, sys, time, pathlib
from opboost_ops.aggregation.mailbox import Mailbox
from opboost_ops.aggregation.messages import Messages
from opboost_ops.boosting import federboost
from benchmarks.papers import horizontal, side_by_side

asked = json.loads(sys.argv[1])
folder = pathlib.Path(asked["folder"])
collect, send, step = Messages.collect, Messages.send, Mailbox.step
party, learn = side_by_side._party, federboost.learn
late, waits, vectors, bits, models = [], [], [], [], []

def sent(self, kind, *more, vector=None, **content):
    if vector is not None:
        content["vector"] = vector
        vectors.append(getattr(vector, "nbytes", None) or len(vector))
    return send(self, kind, *more, **content)

def stepped(self, name, size, vector, decide, form, bounds=()):
    # A masked integer is uniform: what it takes is the logarithm of how many sums there may be.
    each = [math.log2(2 * bound + 1) for bound in bounds] or [64]
    bits.append(size * sum(each) / len(each))
    return step(self, name, size, vector, decide, form, *([bounds] if bounds else []))

def seen(self, places, name, *more, **options):
    began = time.time()
    found = collect(self, places, name, *more, **options)
    now, root = time.time(), self._store._folder / self._federation.name / self._run
    last = max((root / k / p / name).stat().st_ctime for k, p in found) if found else now
    late.append(now - max(began, last))
    waits.append(now - began)
    return found

def learnt(*args, **options):
    models.append(learn(*args, **options))
    return models[-1]

def one(number, *args):
    party(number, *args)
    trees = [tree for each in models[-1].trees for tree in each]
    model = repr([(tree.leaves, [
        (node, split.feature, split.bin, split.gain, left, right)
        for node, (split, left, right) in sorted(tree.splits.items())
    ]) for tree in trees])
    told = {"party": number, "late": sum(late), "waited": sum(waits), "model": model,
            "vectors": sum(vectors) / max(len(vectors), 1), "bits": sum(bits) / len(bits)}
    (folder / f"{number}.json").write_text(json.dumps(told))

Messages.collect, Messages.send, Mailbox.step = seen, sent, stepped
side_by_side._party, federboost.learn = one, learnt
line = horizontal.times((asked["parties"],), asked["trees"], asked["layers"], asked["rows"])[0]
print(json.dumps(line))
"""

#: One message after waits of 0.25 to 0.8 s, so that hardly anything competes for the processor.
_WAITING = """
import json, pathlib, sys, threading, time
from tests.horizontal import Banks

boxes, waits, late, looks = {}, 0.0, 0.0, []
banks = Banks(pathlib.Path(sys.argv[1]), encrypted=False)
banks.together(lambda box, i: boxes.update({i: box}))
hears, says = (boxes[i]._post for i in (0, 1))
get = hears.get
hears.get = lambda *place: (looks.append(place), get(*place))[1]
for number in range(-1, 12):
    out = []

    def say():
        time.sleep(max(0.25 + 0.05 * number, 0.0))
        says.send("masked", f"r{number + 1}", vector=b"")
        out.append(time.monotonic())

    thread, begin = threading.Thread(target=say), time.monotonic()
    thread.start()
    hears.wait("masked", ["bank_b"], f"r{number + 1}", "benchmark")
    end = time.monotonic()
    thread.join()
    if number >= 0:
        waits, late = waits + end - begin, late + max(end - out[0], 0.0)
    else:
        looks.clear()
print(json.dumps({"asleep_share": round(late / waits, 4), "looks": round(len(looks) / 12, 1)}))
"""


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--former", type=Path, help="another tree, such as a git worktree")
    parser.add_argument("--parties", type=int, default=3)
    parser.add_argument("--trees", type=int, default=200)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--repeats", type=int, default=1, help="turns; the least seconds count")
    parser.add_argument("--waiting", action="store_true", help="what one wait costs, alone")
    parser.add_argument("--json", action="store_true", help="one line")
    options = parser.parse_args()
    here = Path(__file__).resolve().parent.parent
    trees = {"present": here, **({"former": options.former} if options.former else {})}
    if options.waiting:
        print(json.dumps({name: waited(tree.resolve()) for name, tree in trees.items()}))
        return
    turns: dict[str, list[dict[str, Any]]] = {name: [] for name in trees}
    for _ in range(options.repeats):
        for name, tree in trees.items():
            turns[name].append(measured(tree.resolve(), options))
    found: dict[str, Any] = {name: least(each) for name, each in turns.items()}
    result = {
        **{n: getattr(options, n) for n in ("parties", "rows", "trees", "layers", "repeats")},
        "load": round(os.getloadavg()[0], 1),
        **found,
    }
    if "former" in found:
        now, before = found["present"], found["former"]
        ratio = {n: round(now[n] / before[n], 3) for n in now if n != "model" and before[n]}
        result |= {"ratio": ratio, "same_model": now["model"] == before["model"]}
    print(json.dumps(result, indent=None if options.json else 1))


def waited(tree: Path) -> dict[str, float]:
    """How much of a wait a party sleeps although the message is there, and how often it looks."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        out = subprocess.run(
            [sys.executable, "-c", _WAITING, folder],
            env={**os.environ, "PYTHONPATH": str(tree)},
            cwd=tree,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    found: dict[str, float] = json.loads(out.strip().splitlines()[-1])
    return found


def measured(tree: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One training by one tree's code."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        asked = {n: getattr(options, n) for n in ("parties", "trees", "layers", "rows")}
        out = subprocess.run(
            [sys.executable, "-c", _MEASURE, json.dumps({**asked, "folder": folder})],
            env={**os.environ, "PYTHONPATH": str(tree)},
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        told = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("*.json"))]
    line = json.loads(out.strip().splitlines()[-1])
    models = {each["model"] for each in told}
    if len(models) != 1:
        raise SystemExit("The parties ended with different models.")
    active = next(each for each in told if each["party"] == 0)
    others = [each for each in told if each["party"]]
    cpu = line["cpu_active"] + line["cpu_others"] * len(others)
    late = active["late"] + statistics.fmean(each["late"] for each in others)
    return {
        "processor_seconds": round(cpu, 3),
        "active": line["cpu_active"],
        "each_other": line["cpu_others"],
        "wall": line["seconds"],
        "rounds": line["messages"] // options.parties - 1,
        "messages": line["messages"],
        "bytes_of_one": line["bytes"],
        "bytes_a_message": round(line["bytes"] * options.parties / line["messages"]),
        "bytes_a_vector": round(told[-1]["vectors"]),
        "entropy_bytes_a_vector": round(told[-1]["bits"] / 8),
        "waited_share": round(statistics.fmean(e["waited"] for e in others) / line["seconds"], 4),
        "asleep_share": round(late / line["seconds"], 4),
        "model": hashlib.sha256(models.pop().encode()).hexdigest()[:16],
    }


def least(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """Of several turns the least of each figure: what others on the machine add is not its own."""
    return {n: min(turn[n] for turn in turns) for n in turns[0]}


if __name__ == "__main__":
    main()

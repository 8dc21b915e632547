"""Whether a former tree's code and this one's come to the same results, to the byte.

One made-up federation, with secrets of the first key schedule and every mechanism, trains, scores
new people, and trains again on tables in which a third of the cells have changed: under each tree's
own code and packages. Then what they have made is held against each other by name: the decrypted
contents of each artifact, what lies in the homes, models, scores, charges, and the states of cells
person by person. What must differ is named in `DIFFER` with its reason; anything else that differs
ends with 1.

A former tree is a git worktree with an environment of its own (``make setup`` in it).
"""

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.feather as feather
from equal_runs import HOLDERS, ID, LABELS, NAME, declared

RUNS = Path(__file__).with_name("equal_runs.py")

#: Bytes of a keyed digest as it is sent; before, it was not cut to them, and in the table's order.
WIDTH = 10

#: What parties keep at home that is compared.
AT_HOME = (
    *(f"{name}.arrow" for name in ("person_keys", "alignment", "preprocessed", "held")),
    *(f"{name}.arrow" for name in ("randomised", "ranks", "frame", "holdout_frame")),
    *("rank_values.json", "split_values.json", "partial_model.txt", "model.txt"),
)

#: What is not the same, by what is in its name, and why.
DIFFER = {
    "/plan/": "a plan states more: which alignment, what is agreed, which protocol; and run ids",
    "/alignment/": "who is common goes as a bit a digest, and not as a table of places",
    "scores/probability": "scores have the probability of each class, too",
}


def main() -> None:
    """Run both and print what is equal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("former", type=Path, help="another tree with .venv")
    parser.add_argument("--rows", type=int, default=2000, help="people of the label holder")
    parser.add_argument("--json", action="store_true", help="one line")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for tree in (asked.former, None):
            place = Path(folder) / ("former" if tree else "present")
            tables(place / "tables", asked.rows)
            python = tree.resolve() / ".venv/bin/python" if tree else Path(sys.executable)
            subprocess.run([str(python), str(RUNS), str(place)], check=True)
            found.append(dict(made(place)))
    told = held(*found)
    print(json.dumps(told) if asked.json else table(told))
    if told["unnamed"]:
        sys.exit(1)


def held(former: dict[str, Any], present: dict[str, Any]) -> dict[str, Any]:
    """What is equal of both, by its sort."""
    told: dict[str, Any] = {"sorts": {}, "named": {}, "unnamed": []}
    for name in sorted(set(former) | set(present)):
        sort = name.split("/")[0]
        counts = told["sorts"].setdefault(sort, {"equal": 0, "of": 0})
        counts["of"] += 1
        if name in former and name in present and former[name] == present[name]:
            counts["equal"] += 1
            continue
        why = next((why for part, why in DIFFER.items() if part in name), "")
        (told["named"].setdefault(why, []) if why else told["unnamed"]).append(name)
    return told


def table(told: dict[str, Any]) -> str:
    """The counts as Markdown."""
    lines = ["| what | compared | equal |", "| --- | --- | --- |"]
    lines += [f"| {sort} | {n['of']} | {n['equal']} |" for sort, n in told["sorts"].items()]
    lines += ["", *(f"{len(names)} differ: {why}." for why, names in told["named"].items())]
    return "\n".join([*lines, *(f"DIFFERS: {name}" for name in told["unnamed"])])


def tables(folder: Path, rows: int) -> None:
    """Tables of all parties: to train on, changed ones, and new people."""
    rng = np.random.default_rng(21)
    many = rows + rows // 4
    kinds, grades = ["rent", "own", "other"], ["low", "middle", "high"]

    def column(name: str, count: int) -> pl.Series:
        if name in ("job", "home", "grade"):
            return pl.Series(rng.choice(grades if name == "grade" else kinds, count))
        values = pl.Series(rng.normal(size=count).round(3))
        gaps = pl.Series(rng.random(count) < (0.05 if name in ("gaps", "debt") else 0))
        return pl.select(pl.when(~gaps).then(values)).to_series()

    for use, ids in (("train", np.arange(many)), ("score", np.arange(many, many + rows // 2))):
        for party, features in declared().items():
            # Nobody has everybody, and each has its people in an order of its own.
            own = rng.permutation(ids)[: len(ids) * 9 // 10]
            found = {ID: pl.Series([f"p{i:06d}" for i in own])}
            found |= {name: column(name, len(own)) for name in features}
            if party == LABELS and use == "train":
                found["label"] = pl.Series((rng.random(len(own)) < 0.4).astype(np.int64))
            written(folder / f"{use}-{party}.parquet", found)
            if use == "train":
                changed = pl.Series(rng.random(len(own)) < 1 / 3)
                for name in features:
                    found[name] = column(name, len(own)).zip_with(changed, found[name])
                written(folder / f"again-{party}.parquet", found)


def written(path: Path, found: dict[str, pl.Series]) -> None:
    """Write a table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(found).write_parquet(path)


def made(place: Path) -> Iterator[tuple[str, Any]]:
    """All that is compared: what it is, by sort, run and party, and its digest or value."""
    for path in sorted((place / "opened").rglob("*")):
        name = f"artifacts/{path.relative_to(place / 'opened').with_suffix('')}"
        if path.is_dir():
            continue
        if "/digests/" in name and path.name != "facts.json":
            # In a table's column before, or one behind the other.
            yield f"digests/{name.split('/', 1)[1].rsplit('/', 1)[0]}", sorted(digests(path))
        elif path.suffix == ".parquet":
            yield name, columns(pl.read_parquet(path))
        elif path.suffix == ".json":
            yield name, json.loads(path.read_text())
    run_of = {run: name for name, run in json.loads((place / "runs.json").read_text()).items()}
    for party, (run, of) in itertools.product(declared(), run_of.items()):
        for kept in AT_HOME:
            path = place / "w" / party / "home" / NAME / run / kept
            name = f"homes/{of}/{party}/{kept}"
            if path.suffix == ".arrow" and path.is_file():
                yield name, columns(pl.DataFrame(pl.from_arrow(feather.read_table(path))))
            elif path.is_file():
                yield name, path.read_text()
    for path in (place / "w" / LABELS / "models" / NAME).glob("*/model.txt"):
        yield f"models/{run_of[path.parent.name]}", path.read_text()
    for path in (place / "w" / LABELS / "scores").rglob("*.parquet"):
        for name, values in columns(pl.read_parquet(path).sort(ID).drop("model_version")).items():
            yield f"scores/{name}", values
    for party in HOLDERS:
        told = json.loads((place / f"ledger-{party}.json").read_text())
        for line in told["people"]["columns"]:
            line.pop("share_at_cap", None)  # It was not told.
            yield f"people's charges/{party}/{line['feature']}", line
    for path in sorted((place / "states").rglob("*.npz")):
        with np.load(path) as state:
            bits = np.unpackbits(state["seen"], axis=1, bitorder="little")
            people = zip(state["people"].tolist(), bits, state["last"].tolist(), strict=True)
            yield (
                f"cell states/{path.parent.name}/{path.stem}",
                {p: (np.flatnonzero(seen).tolist(), last) for p, seen, last in people},
            )


def columns(frame: pl.DataFrame) -> dict[str, str]:
    """A table's columns, in their order, every value as it is written in full."""
    return {name: repr(frame[name].to_list()) for name in frame.columns}


def digests(path: Path) -> list[bytes]:
    """Keyed digests as they are sent: in a table's column, or one behind the other."""
    if path.suffix == ".parquet":
        return [digest[:WIDTH] for digest in pl.read_parquet(path).to_series()]
    raw = path.read_bytes()
    return [raw[begin : begin + WIDTH] for begin in range(0, len(raw), WIDTH)]


if __name__ == "__main__":
    main()

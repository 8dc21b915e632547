"""Make `site-0.2.0.tar.xz`: what three parties had at home and in their store under release 0.2.0.

Run it with that release, and never with another one; the file is made once and kept:

    git worktree add ../release-0.2.0 d958b54
    (cd ../release-0.2.0 && make setup && .venv/bin/python <this file> <site-0.2.0.tar.xz>)

The parties are those of `make_site_0_1_0`. They train `loans`, train it again on the same tables,
rotate the secret of `shop`, forget a person at `bank`, train on a changed table and score; then
`shop` stops. All keys are made here and protect nothing.
"""

import sys
import tarfile
import tempfile
from pathlib import Path

import polars as pl

sys.path.insert(0, str(Path(__file__).parents[2]))

from opboost_ops.datasets.workspace import write_workspace
from tests.golden.make_site_0_1_0 import FORGOTTEN, _nobody, declared, opboost, said


def live(folder: Path) -> None:
    """What the parties did under 0.2.0."""
    opboost(folder, "run", "federation.yaml", "--trees", "4")
    opboost(folder, "run", "federation.yaml", "--trees", "5")
    opboost(folder, "keys", "rotate", "shop", "--yes")
    opboost(folder, "forget", "bank", FORGOTTEN)
    path = folder / "bank" / "tables" / "train.parquet"
    raised = pl.when(pl.int_range(pl.len()) % 9 == 0).then(1.7).otherwise(1.0)
    table = pl.read_parquet(path).with_columns(income=pl.col("income") * raised)
    table.write_parquet(path)
    opboost(folder, "run", "federation.yaml", "--trees", "6")
    opboost(folder, "score", "federation.yaml")
    opboost(folder, "stop", "shop", "loans", "--because", "a golden file has a stop")
    for party in ("credit", "bank", "shop"):
        said(folder, f"ledger_{party}", "ledger", "show", party, "--people")
        said(folder, f"agreed_{party}", "agree", party)
    said(folder, "models_loans", "models", "list", "credit", "--federation", "loans")


def main(out: Path) -> None:
    """Make the file."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "site-0.2.0"
        training = {"trees": 4, "depth": 3, "tolerance": 1.0}
        write_workspace(declared(), folder, capped=False, training=training)
        live(folder)
        for path in folder.rglob("*"):
            if path.is_file() and made.encode() in path.read_bytes():
                path.write_text(path.read_text().replace(made, "/srv"))
                print("moved to /srv:", path.relative_to(folder))
        with tarfile.open(out, "w:xz", preset=9) as archive:
            archive.add(folder, "site-0.2.0", filter=_wanted)
    print(out, out.stat().st_size)


def _wanted(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Of the homes only what says which artifacts and draws there were; no pictures."""
    path = Path(member.name)
    kept = "home" not in path.parts or path.name in ("acceptance.json", "held.json")
    if member.isfile() and (not kept or path.suffix in (".png", ".html")):
        return None
    return _nobody(member)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""A federation in whose raw columns and IDs every value is a canary, and the search for them."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import yaml

from opboost_ops.extras.datasets.tables import Dataset
from opboost_ops.extras.datasets.workspace import agree_for_all, dump, write_workspace

FEATURES = {"bureau": ("age",), "shop": ("spend", "orders"), "bank": ("income", "balance")}
PARTIES = tuple(FEATURES)
#: Columns that tell how wealthy a person is, more or less; the label is one.
LEARNT = ("spend", "income", "target")
NAME = "birdcage"
ROWS = 400
NEW_ROWS = 60


@dataclass(frozen=True)
class Marks:
    """How to recognise a party's values: pieces of text, and numbers as eight bytes."""

    texts: tuple[bytes, ...]
    numbers: np.ndarray

    def found_in(self, content: bytes) -> bool:
        """Whether any of them is in a file's bytes, at whatever place."""
        if any(text in content for text in self.texts):
            return True
        for shift in range(min(8, len(content))):
            words = np.frombuffer(content, "<u8", (len(content) - shift) // 8, shift)
            if np.isin(words, self.numbers).any():
                return True
        return False


@dataclass(frozen=True)
class Canaries:
    """What was planted.

    Attributes:
        root: The workspace.
        own: Marks that belong to one party alone, by party.
        shared: Marks of the IDs that all parties hold.
    """

    root: Path
    own: dict[str, Marks]
    shared: Marks

    @property
    def federation(self) -> Path:
        return self.root / "federation.yaml"

    @property
    def sites(self) -> dict[str, Path]:
        return {party: self.root / party / "site.yaml" for party in PARTIES}

    def outside(self, *roots: Path) -> list[str]:
        """Where canaries are found outside their own party's folder; empty is good."""
        return self.found_in(self.root, *roots)

    def found_in(self, *roots: Path) -> list[str]:
        """The same, in these folders alone."""
        found = []
        for path in _files(*roots):
            owner = next((p for p in PARTIES if (self.root / p) in path.parents), None)
            foreign = {party: marks for party, marks in self.own.items() if party != owner}
            if owner is None:
                foreign["everybody"] = self.shared
            content = _content(path)
            found += [f"{path}: {whose}" for whose, m in foreign.items() if m.found_in(content)]
        return found

    def one_of_each(self, party: str) -> str:
        """A text with a value of every column of a party, as foreign errors print cells."""
        table = pl.read_parquet(self.root / party / "tables" / "train.parquet")
        return str([table[column].to_list()[:3] for column in table.columns])


def plant(root: Path) -> Canaries:
    """Write a workspace of three parties whose every cell and ID can be recognised."""
    rng = np.random.default_rng(7)
    common = [f"canary-common-{i:05d}" for i in range(ROWS)]
    own: dict[str, Marks] = {}
    tables: dict[str, pl.DataFrame] = {}
    new_rows: dict[str, pl.DataFrame] = {}
    new_people = [f"canary-common-new-{i:05d}" for i in range(NEW_ROWS)]
    serial = iter(range(1, 100))
    # A model that is worse than the label holder's columns alone does not become champion, and
    # then no new row is scored: so the label depends on a column of each feature holder.
    wealth = dict(zip(common + new_people, rng.integers(2500, 7500, ROWS + NEW_ROWS), strict=True))
    for party, names in FEATURES.items():
        others = [f"canary-only-{party}-{i:04d}" for i in range(40)]
        ids = rng.permutation(common + others)
        new_ids = rng.permutation(new_people + [f"{name}-new" for name in others[:9]])
        columns: dict[str, np.ndarray] = {"id": np.concatenate([ids, new_ids])}
        texts = [f"canary-only-{party}".encode()]
        for name in [*names, *(["target"] if party == "bureau" else [])]:
            # The fraction is the column's own, and nothing else has it.
            fraction = f"{next(serial) * 131077:07d}"
            drawn = rng.integers(2000, 8000, len(columns["id"]))
            if name in LEARNT:
                near = rng.integers(-500, 500, drawn.size)
                known = [wealth.get(person) for person in columns["id"].tolist()]
                drawn = np.array(
                    [a if w is None else w + b for a, b, w in zip(drawn, near, known, strict=True)]
                )
            columns[name] = np.array([float(f"{v}.{fraction}") for v in drawn])
            texts.append(f".{fraction}".rstrip("0").encode())
        numbers = np.concatenate([columns[n] for n in columns if n != "id"]).view("<u8")
        if party == "bureau":
            kinds = range(len(columns["id"]))
            columns["branch"] = np.array([f"canary-branch-{i % 7}" for i in kinds])
            texts.append(b"canary-branch")
        own[party] = Marks(tuple(texts), numbers)
        whole = _of_every_type(pl.DataFrame(columns), party)
        tables[party] = whole[: ids.size]
        new_rows[party] = whole[ids.size :].drop("target", strict=False)
    protected = {"bounds": [0, 10_000]}
    dataset = Dataset(
        name=NAME,
        task="regression",
        tables=tables,
        label_holder="bureau",
        label={"column": "target", "task": "regression"},
        features={
            "bureau": {"age": {}, "branch": {"type": "nominal"}},
            "shop": dict.fromkeys(FEATURES["shop"], protected),
            "bank": dict.fromkeys(FEATURES["bank"], protected),
        },
        holdout=0.2,
        epsilon=1.0,
        domain=(1, 10),
        new_rows=new_rows,
    )
    # So that every stage there is has its place in training or in scoring.
    scoring = {"mode": "desensitised", "evaluate": ["routed"]}
    training = {"trees": 10}
    path = write_workspace(dataset, root, training=training, scoring=scoring)
    # What goes to the label holder is not encrypted: the search must see it. (Feature holders need
    # their keys, which they share with one another.)
    data = yaml.safe_load(path.read_text())
    for spec in data["parties"].values():
        if spec["role"] == "label_holder":
            del spec["encryption_key"]
    for party in data["parties"]:
        policy = yaml.safe_load((root / party / "policy.yaml").read_text())
        dump(root / party / "policy.yaml", {**policy, "require_encryption": False})
    # One table is two files, each with a task of its own.
    for name in ("train", "score"):
        file = root / "bank" / "tables" / f"{name}.parquet"
        whole = pl.read_parquet(file)
        file.unlink()
        file.mkdir()
        for i, part in enumerate((whole[: whole.height // 3], whole[whole.height // 3 :])):
            part.write_parquet(file / f"{i}.parquet")
    dump(path, data)
    agree_for_all(path)
    return Canaries(root, own, Marks((b"canary-common",), np.array([], "<u8")))


def _of_every_type(table: pl.DataFrame, party: str) -> pl.DataFrame:
    """The table with columns whose types hold values in themselves; one of them is declared."""
    names = [f"canary-only-{party}-{i % 40}" for i in range(table.height)]
    kinds = list(dict.fromkeys(names))
    if "branch" in table.columns:
        branches = table.get_column("branch").unique().sort()
        table = table.with_columns(pl.col("branch").cast(pl.Enum(branches)))
    return table.with_columns(
        pl.Series("enum", names, dtype=pl.Enum(kinds)),
        pl.Series("category", names, dtype=pl.Categorical),
        pl.Series("list", [[name] for name in names], dtype=pl.List(pl.Enum(kinds))),
        pl.Series("struct", [{f"of-{kinds[0]}": name} for name in names]),
        pl.Series("nested", [[{"of": name}] for name in names]),
        pl.Series("bytes", [name.encode() for name in names]),
        table.get_column(FEATURES[party][0]).cast(pl.Decimal(20, 7)).alias("decimal"),
    )


def _files(*roots: Path) -> Iterator[Path]:
    for root in roots:
        yield from (path for path in sorted(root.rglob("*")) if path.is_file())


def _content(path: Path) -> bytes:
    """A file's bytes; of Parquet also its decoded columns, of SQLite also its rows."""
    content = path.read_bytes()
    if content.startswith(b"PAR1"):
        for column in pl.read_parquet(path):
            content += str(column.dtype).encode()
            if column.dtype == pl.Binary:
                content += b"\n".join(column.drop_nulls().to_list())
            elif column.dtype.is_numeric():
                content += b"\0" * (-len(content) % 8)
                content += column.drop_nulls().cast(pl.Float64).to_numpy().tobytes()
            else:
                content += str(column.to_list()).encode()
    if content.startswith(b"SQLite format 3"):
        database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        content += "\n".join(database.iterdump()).encode()
        database.close()
    return content

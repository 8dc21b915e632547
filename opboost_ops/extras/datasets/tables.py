"""Named public tables, split between two parties as in the OpBoost paper.

Party A has the labels and the categorical columns, party B the numeric ones. Bounds are round
numbers that anyone could declare without the data. UCI's tables are under CC BY 4.0, Kaggle's under
the rules of its competition.
"""

import hashlib
import io
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import polars as pl

from opboost_ops.errors import ConfigError

ID = "id"
Task = Literal["binary", "multiclass", "regression"]

FOLDER = "OPBOOST_DATASETS"

_TIMEOUT = 60

#: Texts for missing values in the tables.
_MISSING = ["?", "NA"]

A, B = "party_a", "party_b"

_HOME = "https://archive.ics.uci.edu/ml/machine-learning-databases"

_ADULT = ("age", "workclass", "fnlwgt", "education", "education-num", "marital-status",
          "occupation", "relationship", "race", "sex", "capital-gain", "capital-loss",
          "hours-per-week", "native-country", "income")  # fmt: skip

_ABALONE = ("Sex", "Length", "Diameter", "Height", "WholeWeight", "ShuckedWeight", "VisceraWeight",
            "ShellWeight", "Rings")  # fmt: skip

_CREDIT_1 = ("SeriousDlqin2yrs", "RevolvingUtilizationOfUnsecuredLines", "age",
             "NumberOfTime30-59DaysPastDueNotWorse", "DebtRatio", "MonthlyIncome",
             "NumberOfOpenCreditLinesAndLoans", "NumberOfTimes90DaysLate",
             "NumberRealEstateLoansOrLines", "NumberOfTime60-89DaysPastDueNotWorse",
             "NumberOfDependents")  # fmt: skip

_PEN = (*(f"F{i}" for i in range(1, 17)), "class")


@dataclass(frozen=True)
class Dataset:
    """Tables of all parties of one federation.

    Attributes:
        name: Name of the dataset and its federation.
        task: Learning task.
        tables: Tables by party, each with the ID column ``id``.
        label_holder: The party with the label.
        label: The ``label`` entry of the federation file.
        features: The ``features`` entries by party, without uuid and mechanism.
        holdout: The entry ``training.holdout``.
        epsilon: Default epsilon of its protected features.
        domain: Default bounds L and R.
        new_rows: Tables of people to score by party, without the label; empty if there are none.
    """

    name: str
    task: Task
    tables: Mapping[str, pl.DataFrame]
    label_holder: str
    label: Mapping[str, Any]
    features: Mapping[str, Mapping[str, Mapping[str, Any]]]
    holdout: float
    epsilon: float
    domain: tuple[int, int]
    new_rows: Mapping[str, pl.DataFrame] = field(default_factory=dict)


def table_digest(table: pl.DataFrame) -> str:
    """Return the SHA-256 of a table's names and values, independent of the file's format."""
    return hashlib.sha256(table.write_csv(float_precision=6).encode()).hexdigest()


def row_ids(prefix: str, rows: int) -> pl.Series:
    """Return unique string IDs, one per row, for a table without IDs."""
    return pl.Series(ID, [f"{prefix}-{i:06d}" for i in range(rows)])


@dataclass(frozen=True)
class Source:
    """The source of a public table.

    Attributes:
        file: Name of its file in the folder.
        url: URL of a CSV file; empty if it is published in another format only.
        columns: Names of its columns, for files without a header.
        digest: Digest of the parsed table.
        advice: How to get the file if there is no URL.
    """

    file: str
    url: str
    columns: tuple[str, ...]
    digest: str
    advice: str = ""


def read(source: Source) -> pl.DataFrame:
    """Read the table from the folder, or download it.

    Raises:
        ConfigError: The table is not available, or its digest differs.
    """
    folder = os.environ.get(FOLDER)
    if folder:
        path = Path(folder) / source.file
        table = _from_file(path)
    else:
        table = _downloaded(source)
    table = table.select(source.columns)
    if table_digest(table) != source.digest:
        raise ConfigError(
            f"{source.file} is not the expected table: its digest differs.",
            "Download it again from its public source.",
        )
    return table


def _downloaded(source: Source) -> pl.DataFrame:
    # Not tested over a network. Downloaded tables must have the known digest, so a wrong assumption
    # about their format is an error.
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "opboost"
    path = cache / source.file
    if path.is_file():
        return _from_file(path)
    advice = f"Save it as {source.file} in a folder, and name that folder in {FOLDER}."
    if not source.url:
        raise ConfigError(f"{source.file} cannot be downloaded.", source.advice + advice)
    raw = b""
    try:
        with urllib.request.urlopen(source.url, timeout=_TIMEOUT) as file:  # noqa: S310 (fixed URLs)
            raw = file.read()
    except (urllib.error.URLError, OSError):
        pass
    if not raw:
        raise ConfigError(f"{source.url} cannot be downloaded.", advice)
    # UCI's files have spaces after commas, and no header.
    text = "\n".join(
        ",".join(cell.strip() for cell in line.split(","))
        for line in raw.decode("latin-1").splitlines()
        if line.strip() and not line.startswith("|")
    )
    has_header = text.partition("\n")[0].split(",")[0] in source.columns
    table = _parsed(
        lambda: pl.read_csv(
            io.StringIO(text),
            has_header=has_header,
            new_columns=None if has_header else list(source.columns),
            null_values=_MISSING,
            infer_schema_length=None,
        ),
        path,
    )
    cache.mkdir(parents=True, exist_ok=True)
    table.write_csv(path.with_suffix(""))
    import gzip

    path.write_bytes(gzip.compress(path.with_suffix("").read_bytes(), mtime=0))
    path.with_suffix("").unlink()
    return table


def _from_file(path: Path) -> pl.DataFrame:
    return _parsed(lambda: pl.read_csv(path, null_values=_MISSING, infer_schema_length=None), path)


def _parsed(parse: Callable[[], pl.DataFrame], path: Path) -> pl.DataFrame:
    try:
        return parse()
    except (pl.exceptions.PolarsError, OSError):
        pass
    raise ConfigError(
        f"{path.name} is missing, or not a CSV table.", f"Check the folder that {FOLDER} names."
    )


SOURCES = {
    "adult": Source(
        "adult_train.csv.gz",
        f"{_HOME}/adult/adult.data",
        _ADULT,
        "5138b5b5c98caed85f1d168fa268339cfe6e9d033c3957515ab3a00396877174",
    ),
    "pendigits_train": Source(
        "pendigits_train.csv.gz",
        f"{_HOME}/pendigits/pendigits.tra",
        _PEN,
        "6f0d82dc7600ea36957f5cc109798a22c1b5b01145816122f754196c2b57dfae",
    ),
    "pendigits_test": Source(
        "pendigits_test.csv.gz",
        f"{_HOME}/pendigits/pendigits.tes",
        _PEN,
        "4cc8addc8a4d9d30d9a5df313f900ac60848017b83efa69d297735c5ef41113e",
    ),
    "powerplant": Source(
        "powerplant.csv.gz",
        "",
        ("AT", "V", "AP", "RH", "PE"),
        "5d9b387c2b15e86095e8eaba8272f203dd552f5a8b0c2c3022694a20843a1d18",
        "UCI's Combined Cycle Power Plant table is a spreadsheet: save its first sheet as "
        "gzipped CSV. ",
    ),
    "casp": Source(
        "casp.csv.gz",
        f"{_HOME}/00265/CASP.csv",
        (*(f"F{i}" for i in range(1, 10)), "RMSD"),
        "2bfe984609fb33bfc2c4793adf97256d2ac4d683e3d1ad8b59164810fc87675c",
    ),
    "abalone": Source(
        "abalone.csv.gz",
        f"{_HOME}/abalone/abalone.data",
        _ABALONE,
        "fc84ddefcfbc1d1b49733f00242cfa83f644d75c9106f24b33614c3ef5456252",
    ),
    "credit_default": Source(
        "credit_default.csv.gz",
        "",
        (*(f"X{i}" for i in range(1, 24)), "Y"),
        "4f6350eca1df92c7a21f637c131487b4769268b683cece2ad91b0a1a82eb9d80",
        "UCI's default of credit card clients is a spreadsheet: save its sheet as gzipped CSV with "
        "the columns X1 to X23 and Y. ",
    ),
    "give_me_some_credit": Source(
        "give_me_some_credit.csv.gz",
        "",
        _CREDIT_1,
        "b6c5a075a378f695b34e23f88076343097752217aabc58a3b2c8ac5e3198f8fd",
        "Kaggle gives Give Me Some Credit (cs-training.csv) to anyone who accepts its rules. ",
    ),
}


def credit_default() -> Dataset:
    """Load UCI default of credit card clients (FederBoost's "Credit 2"): default next month."""
    bounds: dict[str, list[float]] = {"X1": [0, 1_000_000]}
    bounds |= {f"X{i}": [-2, 9] for i in range(6, 12)}
    bounds |= {f"X{i}": [-100_000, 1_000_000] for i in range(12, 18)}
    features: dict[str, Any] = _bounded(bounds)
    features |= {f"X{i}": {"bounds": [0, 500_000], "scale": "log1p"} for i in range(18, 24)}
    return _two_parties(
        "credit_default",
        {"column": "Y", "task": "binary", "classes": [0, 1]},
        {"X2": {}, "X3": {}, "X4": {}, "X5": {}},
        features,
        holdout=1 / 3,
    )


def give_me_some_credit() -> Dataset:
    """Load Kaggle Give Me Some Credit (FederBoost's "Credit 1"): distress within two years."""
    times = {"bounds": [0, 20]}
    features: dict[str, Any] = {
        "RevolvingUtilizationOfUnsecuredLines": {"bounds": [0, 2]},
        "NumberOfTime30-59DaysPastDueNotWorse": times,
        "DebtRatio": {"bounds": [0, 10_000], "scale": "log1p"},
        "MonthlyIncome": {
            "bounds": [0, 50_000],
            "scale": "log1p",
            "missing": {"fill": 5000, "bit": 0.08},
        },
        "NumberOfOpenCreditLinesAndLoans": {"bounds": [0, 40]},
        "NumberOfTimes90DaysLate": times,
        "NumberRealEstateLoansOrLines": times,
        "NumberOfTime60-89DaysPastDueNotWorse": times,
    }
    return _two_parties(
        "give_me_some_credit",
        {"column": "SeriousDlqin2yrs", "task": "binary", "classes": [0, 1]},
        {"age": {}, "NumberOfDependents": {"missing": "keep"}},
        features,
        holdout=1 / 3,
    )


def abalone() -> Dataset:
    """Load UCI Abalone, which DPBoost uses: number of rings."""
    bounds = {
        "Length": [0, 1],
        "Diameter": [0, 1],
        "Height": [0, 0.5],
        "WholeWeight": [0, 3],
        "ShuckedWeight": [0, 1.5],
        "VisceraWeight": [0, 1],
        "ShellWeight": [0, 1],
    }
    return _two_parties(
        "abalone",
        {"column": "Rings", "task": "regression"},
        {"Sex": {"type": "nominal"}},
        _bounded(bounds),
    )


def adult() -> Dataset:
    """Load UCI Adult, its training file as in the paper, 80/20: income above 50K."""
    nominal = ("workclass", "education", "marital-status", "occupation", "relationship", "race",
               "sex", "native-country")  # fmt: skip
    bounds: dict[str, list[float]] = {
        "age": [15, 90],
        "fnlwgt": [0, 600_000],
        "education-num": [1, 16],
        "capital-gain": [0, 100_000],
        "hours-per-week": [0, 100],
    }
    own: dict[str, Any] = {name: {"type": "nominal", "missing": "keep"} for name in nominal}
    own["capital-loss"] = {}
    features = _bounded(bounds)
    return _two_parties(
        "adult",
        {"column": "income", "task": "binary", "classes": ["<=50K", ">50K"]},
        own,
        features,
    )


def pendigits() -> Dataset:
    """Load UCI Pen-based digits, both files as one table: the digit that was written.

    Held-out rows are drawn from the whole table, so each writer is in both parts.
    """
    features = {name: {"bounds": [0, 100]} for name in _PEN[:-1]}
    label = {"column": "class", "task": "multiclass", "classes": list(range(10))}
    return _two_parties(
        "pendigits",
        label,
        {},
        features,
        holdout=0.3,
        files=("pendigits_train", "pendigits_test"),
    )


def powerplant() -> Dataset:
    """Load UCI Combined Cycle Power Plant, 80/20: hourly electrical output."""
    bounds = {"AT": [0, 40], "V": [25, 85], "AP": [990, 1035], "RH": [25, 105]}
    return _two_parties(
        "powerplant",
        {"column": "PE", "task": "regression"},
        {},
        _bounded(bounds),
    )


def casp() -> Dataset:
    """Load UCI protein structure (CASP 5-9), 80/20: size of the residue."""
    bounds = {
        "F1": [0, 25_000],
        "F2": [0, 8_000],
        "F3": [0, 0.6],
        "F4": [0, 300],
        "F5": [0, 4_000_000],
        "F6": [0, 400],
        "F7": [0, 10_000],
        "F8": [0, 350],
        "F9": [10, 60],
    }
    return _two_parties(
        "casp",
        {"column": "RMSD", "task": "regression"},
        {},
        _bounded(bounds),
    )


def _bounded(bounds: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of numeric features with bounds."""
    return {name: {"bounds": ends} for name, ends in bounds.items()}


def _two_parties(
    name: str,
    label: dict[str, Any],
    own: dict[str, Any],
    protected: dict[str, Any],
    holdout: float = 0.2,
    files: Sequence[str] = (),
) -> Dataset:
    table = pl.concat([read(SOURCES[file]) for file in files or (name,)])
    table = table.with_columns(row_ids(name, table.height))
    return Dataset(
        name=name,
        task=label["task"],
        tables={
            A: table.select([ID, *own, label["column"]]),
            B: table.select([ID, *protected]),
        },
        label_holder=A,
        label=label,
        features={A: own, B: protected},
        holdout=holdout,
        epsilon=0.08,
        domain=(1, 10),
    )

"""What buckets and their noise cost: vertical FederBoost (Tian et al., Protocol 2, Figure 3).

The label holder's own features stay as they are; all of the feature holder's are put into buckets
and randomised. Models are tested on unrandomised rows, which is what routed prediction gives.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks.papers import pictures
from benchmarks.papers.experiment import Experiment, Options
from benchmarks.papers.markdown import table
from benchmarks.papers.measurements import measure_all, summary
from benchmarks.papers.two_parties import TwoParties
from opboost_ops.domain import Domain
from opboost_ops.extras.datasets import load
from opboost_ops.extras.datasets.tables import ID, Dataset
from opboost_ops.mechanisms import BucketResponse

DATASETS = ("give_me_some_credit", "credit_default")
#: The generated table, for a run that needs no file.
MADE_UP = "credit"
BUCKETS = (4, 8, 16, 32, 64)
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
#: The paper's configuration, and its figures: AUC in percent. Its learning rate is not known here.
PAPER_BUCKETS, PAPER_EPSILON = 16, 4.0
PAPER: Mapping[str, Mapping[str, float]] = {
    "give_me_some_credit": {"centralised": 86.10, "buckets": 85.85, "epsilon_4": 85.70},
    "credit_default": {"centralised": 78.04, "buckets": 77.65, "epsilon_4": 77.27},
}
TREES, RATE, DEPTH = 20, 0.3, 3
_HELD_OUT = 1 / 3

_TIMES = (0, 1)
_STATUS, _BILL = (-2, -1, 0, 1), (0, 1_000, 5_000, 20_000, 50_000, 100_000, 200_000)
_PAID = (0, 1_000, 2_000, 3_000, 5_000, 10_000)

#: Round numbers, as a party would declare them; a value on an edge lies below it. These are what
#: the guarantee is for. They were written down with these public tables at hand: anyone who knows
#: the field alone may declare worse ones.
DECLARED: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    "give_me_some_credit": {
        "RevolvingUtilizationOfUnsecuredLines": (0.05, 0.15, 0.3, 0.5, 0.7, 0.9, 1),
        "NumberOfTime30-59DaysPastDueNotWorse": _TIMES,
        "DebtRatio": (0.1, 0.25, 0.4, 0.6, 1, 100, 1_000),
        "MonthlyIncome": (-1, 2_000, 3_500, 5_000, 6_500, 8_000, 11_000),
        "NumberOfOpenCreditLinesAndLoans": (2, 4, 6, 8, 10, 14, 18),
        "NumberOfTimes90DaysLate": _TIMES,
        "NumberRealEstateLoansOrLines": (0, 1, 2),
        "NumberOfTime60-89DaysPastDueNotWorse": _TIMES,
    },
    "credit_default": {
        "X1": (20_000, 50_000, 100_000, 150_000, 200_000, 300_000, 400_000),
        **{f"X{i}": _STATUS for i in range(6, 12)},
        **{f"X{i}": _BILL for i in range(12, 18)},
        **{f"X{i}": _PAID for i in range(18, 24)},
    },
    MADE_UP: {
        "income": (900, 1_300, 1_800, 2_300, 3_000, 4_000, 5_500),
        "balance": (250, 450, 700, 1_000, 1_500, 3_300, 5_500),
        "overdrafts": (0, 1, 2),
        "debt_ratio": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7),
        "savings_rate": (0, 0.04, 0.08, 0.12, 0.16, 0.2),
    },
}


def settings(buckets: Sequence[int], epsilons: Sequence[float]) -> Iterator[dict[str, Any]]:
    """All settings of one table and seed; an epsilon of 0 is no noise."""
    for edges in ("centralised", "alone"):
        yield {"edges": edges, "buckets": 0, "epsilon": 0.0}
    for edges, q in [*(("equal_count", q) for q in buckets), ("declared", 0)]:
        for epsilon in (0.0, *epsilons):
            yield {"edges": edges, "buckets": q, "epsilon": epsilon}


def run(options: Options) -> dict[str, Any]:
    """Measure all settings and sum them up.

    Returns:
        ``rows``: for each setting AUC and its loss against centralised training on the same split,
        both in points of 100, and their spread over seeds; ``paper``: the paper's AUC.
    """
    datasets = options["dataset"]
    cells = [
        {"dataset": dataset, "seed": seed, **setting}
        for dataset in datasets
        for seed in range(options.seeds)
        for setting in settings(options["buckets"], options["epsilon"])
    ]
    rows = measure_all(cells, measure, "federboost", options)
    best = {
        (row["dataset"], row["seed"]): row["auc"]
        for row in rows.filter(pl.col("edges") == "centralised").iter_rows(named=True)
    }
    losses = [best[r["dataset"], r["seed"]] - r["auc"] for r in rows.iter_rows(named=True)]
    by = ("dataset", "edges", "buckets", "epsilon")
    lines = summary(rows.with_columns(loss=pl.Series(losses)), by, ("auc", "loss"))
    return {
        "trees": TREES,
        "rate": RATE,
        "depth": DEPTH,
        "held_out": round(_HELD_OUT, 6),
        "paper": {name: dict(PAPER[name]) for name in datasets if name in PAPER},
        "rows": lines,
    }


def measure(cell: Mapping[str, Any]) -> dict[str, float]:
    """Train and test one setting.

    Args:
        cell: Dataset, seed, and one of `settings`.

    Returns:
        ``auc``, in points of 100.
    """
    q = cell["buckets"] or _widest(cell["dataset"])
    scale = "quantile" if cell["edges"] == "equal_count" else "linear"
    table = _prepared(cell["dataset"], scale, q, cell["seed"])
    method = {"centralised": "raw", "alone": "alone"}.get(cell["edges"], "buckets")
    noise = {}
    if cell["epsilon"]:
        noise = {n: bucket_response(cell["epsilon"], len(m.edges or ()))
                 for n, m in table.maps.items()}  # fmt: skip
    frame, test = table.frames(method, noise)
    parameters = table.parameters(cell["seed"], trees=TREES, learning_rate=RATE, depth=DEPTH)
    return {"auc": 100 * table.figure(table.trained(frame, parameters), test)}


def bucket_response(epsilon: float, edges: int) -> BucketResponse:
    """A bucket for each cell of a scale by edges, which are the domain's first integers.

    Args:
        epsilon: Of the noise.
        edges: How many the scale has.
    """
    return BucketResponse(epsilon=epsilon, edges=tuple(range(2, edges + 2)))


@lru_cache(maxsize=2)
def table_of(name: str) -> Dataset:
    """A named table of two parties with declared edges; who tells no income has a bucket of it.

    Args:
        name: One of `DECLARED`.
    """
    dataset = load(name) if name != MADE_UP else _made_up()
    (holder,) = (party for party in dataset.tables if party != dataset.label_holder)
    features: dict[str, Any] = {}
    for feature, declared in dataset.features[holder].items():
        features[feature] = {**declared, "scale": {"edges": DECLARED[name][feature]}}
        if "missing" in declared:
            # A number that no income is; the lowest edge is that very number.
            upper = declared["bounds"][1]
            features[feature] |= {"missing": {"fill": -1}, "bounds": [-1, upper]}
    return replace(dataset, features={**dataset.features, holder: features})


def _made_up() -> Dataset:
    """The generated federation's bank and credit institution, on the people whom both know."""
    made = load(MADE_UP, rows=6_000)
    own, bank = made.label_holder, "bank"
    order = made.tables[own].select(ID).join(made.tables[bank].select(ID), on=ID).sort(ID)
    tables = {
        party: order.join(made.tables[party], on=ID, how="left", maintain_order="left")
        for party in (own, bank)
    }
    return replace(made, tables=tables, features={p: made.features[p] for p in tables})


def _widest(name: str) -> int:
    return max(len(edges) for edges in DECLARED[name].values()) + 1


@lru_cache(maxsize=2)
def _prepared(name: str, scale: str, buckets: int, seed: int) -> TwoParties:
    return TwoParties(table_of(name), scale, seed, Domain(1, buckets), _HELD_OUT)


_PICTURE = "evaluation-federboost.svg"
#: Epsilons of the table; the picture and the summary have all.
_TABLED = (4.0,)

Line = Mapping[str, Any]


def section(found: Mapping[str, Any], folder: Path) -> str:
    """Markdown of the result, and its picture."""
    datasets = list(dict.fromkeys(line["dataset"] for line in found["rows"]))
    draw(found, datasets, folder / _PICTURE)
    seeds = max(line["seeds"] for line in found["rows"])
    parts = [
        "## FederBoost, vertical: buckets and their noise",
        "",
        f"AUC in points of 100, mean of {seeds} seeds. {found['trees']} trees of depth "
        f"{found['depth']}, learning rate {found['rate']:g} (the paper's is not known), two thirds "
        "of the rows for training. The label holder's own features stay as they are "
        "(give_me_some_credit: age and dependents; credit_default: X2 to X5); all others are "
        "bucketed and randomised. Tested on clear rows. The loss is against centralised LightGBM.",
        "",
    ]
    parts += [_table(found, datasets), ""]
    parts += [
        f"![Buckets and epsilon](figures/{_PICTURE})",
        "",
        "**Edges of equal counts** are quantiles of the training rows, as in the paper, and "
        "**carry no guarantee**. **Declared edges** are round numbers, at most eight buckets; "
        "their noise is local DP per cell. They were chosen on these public tables, so expect "
        "less on your own.",
        "",
    ]
    return "\n".join(parts)


def _table(found: Mapping[str, Any], datasets: Sequence[str]) -> str:
    lines = found["rows"]
    own = f"{PAPER_BUCKETS} buckets of equal counts"
    chosen: list[tuple[str, tuple[Any, ...], str | None]] = [
        ("centralised", ("centralised",), "centralised"),
        ("label holder alone", ("alone",), None),
        (f"{own}, no noise", ("equal_count", PAPER_BUCKETS), "buckets"),
        (
            f"the same, epsilon {PAPER_EPSILON:g}: the paper's configuration, no guarantee",
            ("equal_count", PAPER_BUCKETS, PAPER_EPSILON),
            "epsilon_4",
        ),
        ("declared edges, no noise", ("declared",), None),
        *(
            (f"declared edges, epsilon {e:g} (ours)", ("declared", 0, e), None)
            for e in _TABLED
            if any(x["epsilon"] == e for x in lines)
        ),
    ]
    rows = []
    for name, which, key in chosen:
        cells = [name]
        for dataset in datasets:
            paper = found["paper"].get(dataset, {})
            one = _one([x for x in lines if x["dataset"] == dataset], *which)
            theirs = paper.get(key) if key else None
            cells += [
                "" if one is None else f"{one['auc']:.2f} ({one['loss']:.2f})",
                _paper(theirs, paper),
            ]
        rows.append(cells)
    heads = [h for d in datasets for h in (f"{d}: AUC (loss)", "paper's AUC (loss)")]
    return table(["", *heads], rows)


def _paper(theirs: float | None, paper: Mapping[str, float]) -> str:
    return "" if theirs is None else f"{theirs:.2f} ({paper['centralised'] - theirs:.2f})"


def _one(lines: Sequence[Line], edges: str, q: int = 0, epsilon: float = 0.0) -> Line | None:
    wanted = {"edges": edges, "buckets": q, "epsilon": epsilon}
    return next((x for x in lines if all(x[k] == v for k, v in wanted.items())), None)


def draw(found: Mapping[str, Any], datasets: Sequence[str], path: Path) -> Path:
    """AUC over the number of buckets, and over epsilon: the paper's Figure 3."""
    figure, plots = pictures.canvas(columns=2, rows=len(datasets))
    for i, dataset in enumerate(datasets):
        lines = [line for line in found["rows"] if line["dataset"] == dataset]
        buckets = sorted({x["buckets"] for x in lines if x["buckets"]})
        epsilons = sorted({x["epsilon"] for x in lines if x["epsilon"]})
        centralised = _auc(_one(lines, "centralised"))
        over_buckets = {"centralised": [centralised] * len(buckets)}
        over_buckets["no noise"] = [_auc(_one(lines, "equal_count", q)) for q in buckets]
        for e in [e for e in epsilons if e >= 1]:
            curve = [_auc(_one(lines, "equal_count", q, e)) for q in buckets]
            over_buckets[f"epsilon {e:g}"] = curve
        pictures.lines(plots[2 * i], buckets, over_buckets)
        plots[2 * i].set_xscale("log", base=2)
        plots[2 * i].set_xticks(buckets, [str(q) for q in buckets])
        pictures.name_axes(plots[2 * i], f"{dataset}, equal counts", "buckets", "AUC")
        over_epsilon = {"centralised": [centralised] * len(epsilons)}
        for name, edges, q in (
            (f"{PAPER_BUCKETS} of equal counts", "equal_count", PAPER_BUCKETS),
            ("declared edges", "declared", 0),
        ):
            over_epsilon[name] = [_auc(_one(lines, edges, q, e)) for e in epsilons]
        pictures.lines(plots[2 * i + 1], epsilons, over_epsilon)
        plots[2 * i + 1].set_xscale("log", base=2)
        plots[2 * i + 1].set_xticks(epsilons, [f"{e:g}" for e in epsilons])
        pictures.name_axes(plots[2 * i + 1], dataset, "epsilon", "AUC")
    return pictures.save(figure, path)


def _auc(line: Line | None) -> float:
    return float("nan") if line is None else float(line["auc"])


EXPERIMENTS = (
    Experiment(
        "federboost",
        "What buckets and their noise cost: FederBoost's vertical AUC and its Figure 3.",
        run,
        section,
        seeds=5,
        options={"dataset": DATASETS, "buckets": BUCKETS, "epsilon": EPSILONS},
        quick={"seeds": 1, "dataset": (MADE_UP,), "buckets": (16,), "epsilon": (1.0, 4.0)},
    ),
)

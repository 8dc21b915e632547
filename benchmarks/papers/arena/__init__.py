"""One list of attacks on our modes and on what other protocols disclose, in bits beside AUC."""

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, median
from typing import Any

from benchmarks.papers.arena import attacks, horizontal, vertical
from benchmarks.papers.experiment import Experiment, Options
from benchmarks.papers.markdown import table
from benchmarks.papers.measurements import Cell, measure_all

#: Two public tables and a generated one.
DATASETS = ("adult", "credit_default", "credit")

#: What attacks read, and what there is to read.
FIGURES = ("auc", "label", "value", "worst", "link", "rows", "joiner", "matched", "matched_own")
ENTROPIES = ("of_label", "of_value")


def run(options: Options) -> dict[str, Any]:
    """Medians over draws by protocol and table."""
    cells = [
        {"dataset": dataset, "protocol": protocol, "seed": seed}
        for seed in range(options.seeds)
        for dataset in options["dataset"]
        for protocol in options["protocol"]
    ]

    def measure(cell: Cell) -> Mapping[str, Any]:
        people = vertical.people(cell["dataset"], cell["seed"], options["rows"])
        side = vertical if cell["protocol"] in vertical.PROTOCOLS else horizontal
        figures = side.measured(cell["protocol"], people, cell["seed"])
        return {name: figures.get(name) for name in (*FIGURES, *ENTROPIES)}

    measured = measure_all(cells, measure, f"arena-{options['rows']}", options)
    lines = []
    for (protocol, dataset), group in measured.group_by(
        ["protocol", "dataset"], maintain_order=True
    ):
        line: dict[str, Any] = {"protocol": protocol, "dataset": dataset, "seeds": group.height}
        for name in (*FIGURES, *ENTROPIES):
            values = group.get_column(name).drop_nulls().to_list()
            line[name] = round(median(values), 4) if values else None
        lines.append(line)
    found: dict[str, Any] = {"people": options["rows"], "rows": lines, "stroke": None}
    if options["stroke"]:
        setting = [{"file": options["stroke"], "seed": 0}]
        (found["stroke"],) = measure_all(
            setting, lambda cell: horizontal.reproduced(**cell), "arena-stroke", options
        ).to_dicts()
    return found


def section(found: Mapping[str, Any], _: Path) -> str:
    """Markdown."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for row in found["rows"]:
        rows.setdefault(row["protocol"], []).append(row)

    def mean(protocol: str, figure: str) -> float | None:
        values = [row[figure] for row in rows[protocol] if row[figure] is not None]
        return fmean(values) if values else None

    def shown(protocol: str, figure: str) -> str:
        value = mean(protocol, figure)
        if value is None and figure == "value":
            value = mean(protocol, "joiner")
        return "" if value is None else f"{value:.2f}"

    rebuilt = max((mean(name, "rows") or 0.0 for name in rows), default=0.0)
    figures = ("auc", "label", "value", "link")
    lines = [
        [f"**{title}**: {reading}", *(shown(protocol, figure) for figure in figures)]
        for protocol, (title, reading) in _READINGS.items()
        if protocol in rows
    ]
    heads = ("protocol", "AUC", "label", "value", "link")
    words = _WORDS.format(
        datasets=", ".join(dict.fromkeys(row["dataset"] for row in found["rows"])),
        people=found["people"], seeds=max(row["seeds"] for row in found["rows"]),
        known=attacks.KNOWN, crowd=attacks.CROWD, epsilon=horizontal.EPSILON,
        delta=horizontal.DELTA, rebuilt=rebuilt,
    )  # fmt: skip
    sources = _SOURCES.format(**_LINKS)
    if found["stroke"]:
        sources += _STROKE.format(paper=_PAPER, **found["stroke"])
    parts = ["## What each protocol gives away", words, table(heads, lines), sources]
    return "\n\n".join(parts) + "\n"


_WORDS = """\
Bits per person that the same attacks read: means over {datasets} (generated) of medians over \
{seeds} draws of {people:,} people. The feature holder guesses a *label* from who shares nodes; \
the label holder a *value*, one of ten cells, knowing those of {known:.0%} of people, and finds a \
row among {crowd} (*link*). In horizontal learning a *value* is that of a person \
who joins, found by subtracting two runs; rows rebuilt from trees read at most {rebuilt:.2f} of \
one, by a party that knows the rest of the row. Guesses count by [adjusted mutual \
information](threat-model.md#what-attacks-read-in-bits-per-person) beyond that of guesses without \
the protocol, links by Fano's bound; better attacks may read more. Noise has epsilon {epsilon:g}, \
delta {delta:g}."""

#: A protocol's title, and one line of reading.
_READINGS: Mapping[str, tuple[str, str]] = {
    "alone": ("Label holder alone", "nothing is sent"),
    "pooled": ("Pooled", "the trainer reads everything"),
    "fate": ("SecureBoost, as in FATE", "no AUC lost; both sides read"),
    "secretflow": ("SecureBoost, as in SecretFlow", "fewer nodes tell nearly as much"),
    "desensitised": ("Desensitised", "a fifth of what pooling tells, no label"),
    "year": ("After 365 nights", "`refresh: never` adds nothing"),
    "yearly": ("After two yearly releases", "half as much again"),
    "left": ("Left join", "the same of people in both tables"),
    "routed": ("Routed", "nearly exact values of people scored"),
    "histograms": ("Horizontal, as in NVFlare, FedTree", "sums give a joiner away"),
    "exact": ("Horizontal, exact sums", "the same to the active party"),
    "noisy": ("Horizontal, noisy sums", "nothing read, for a little AUC"),
    "shared_model": ("Shared model, `dpboost`", "nothing read of training rows"),
}

#: TimberStrike's own percentages at depth 3: FedTree's and NVFlare's (its repository).
_PAPER = "84.91 and 85.93"

_STROKE = """ \
On TimberStrike's own table rebuilt rows match {rebuilt} % of values (the paper: {paper}), and \
{shuffled} % with each column shuffled: the measure rewards common values."""

#: Where two of the disclosures are in the code.
_LINKS = {
    "fate": "https://github.com/FederatedAI/FATE/blob/master/python/fate/ml/ensemble/learner/"
    "decision_tree/hetero/host.py",
    "secretflow": "https://github.com/secretflow/secretflow/blob/main/secretflow/ml/boost/sgb_v/"
    "factory/components/bucket_sum_calculator/bucket_sum_calculator.py",
}

_SOURCES = """\
FATE's [host]({fate}) gets every sample's node after each layer, and its guest the children of \
the host's nodes; SecretFlow's [workers]({secretflow}) get the samples of nodes to be split. \
Sites of [NVFlare](https://github.com/NVIDIA/NVFlare) and \
[FedTree](https://github.com/Xtra-Computing/FedTree) have the trees with their nodes' sums; one \
place adds up all histograms. Labels are read as by [ID2Graph](https://arxiv.org/abs/2307.10318), \
with k-means for Louvain, and rows rebuilt as by [TimberStrike](https://arxiv.org/abs/2506.07605) \
and, from noisy leaves, [Gorgé et al.](https://arxiv.org/abs/2502.05307), by chances of leaves \
nearest to the attacker's own rows."""

EXPERIMENTS = (
    Experiment(
        "arena",
        "Attacks on our modes and on what other protocols disclose, in bits beside AUC.",
        run,
        section,
        seeds=3,
        options={
            "dataset": DATASETS,
            "protocol": (*vertical.PROTOCOLS, *horizontal.PROTOCOLS),
            "rows": vertical.ROWS,
            "stroke": "",
        },
        quick={"seeds": 1, "dataset": DATASETS[2:], "rows": 600},
    ),
)

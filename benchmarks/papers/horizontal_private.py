"""What a guarantee costs in horizontal learning: noisy sums, exact ones, DPBoost, and alone."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.papers import horizontal
from benchmarks.papers.experiment import Experiment, Options
from benchmarks.papers.horizontal import DATASETS, DOMAIN
from benchmarks.papers.markdown import table
from benchmarks.papers.measurements import measure_all, summary
from opboost_ops.exchange.rounds.protocol import Alone, Phase, Round
from opboost_ops.learning.boosters import trainer
from opboost_ops.learning.boosters.backend import Frame, Parameters
from opboost_ops.learning.boosters.backend import Private as Central
from opboost_ops.learning.federboost import federboost, private_federboost
from opboost_ops.learning.federboost.federboost import Settings
from opboost_ops.learning.federboost.histogram import Growth
from opboost_ops.learning.federboost.private_federboost import (
    Private,
    cell_ends,
    learn_private,
    noise_of,
)
from opboost_ops.learning.private import noise

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
PARTIES = (3, 8)
DELTA = 1e-6
#: Trees from noisy sums have the defaults of a session; those from exact sums are few and small.
NOISY = Growth(private_federboost.DEPTH, private_federboost.RATE, penalty=1.0, min_node_rows=20)
GROWTH = Growth(depth=2, learning_rate=0.3, penalty=1.0, min_node_rows=20)
TREES, BUCKETS = 20, 16
_OBJECTIVE = horizontal.OBJECTIVE
_TRAIN = 2 / 3


class NoisyAlone(Alone):
    """All rows at one place, and the noise of so many parties: what their rounds would give.

    Args:
        parties: How many add noise.
        means: Of each one's, by phase.
    """

    derives = False

    def __init__(self, parties: int, means: Mapping[Phase, int]) -> None:
        self.parties, self._means = parties, means

    def _sum(self, name: Round, size: int, vector: Callable[[], np.ndarray]) -> np.ndarray:
        # A sum of Skellam numbers is one of the sum of their means.
        drawn = noise.skellam(size, self.parties * self._means[name.phase])
        return np.asarray(vector() + drawn)


def run(options: Options) -> dict[str, Any]:
    """AUC in percent on a held-out third, by method, parties and epsilon."""
    fixed = [("exact", 1, 0.0), *(("alone", parties, 0.0) for parties in PARTIES)]
    priced = [("noisy", parties, e) for parties in PARTIES for e in EPSILONS]
    methods = [*fixed, *priced, *(("dpboost", 1, e) for e in EPSILONS)]
    cells = [
        {"dataset": name, "method": method, "parties": parties, "epsilon": epsilon, "seed": seed}
        for name in options["dataset"]
        for method, parties, epsilon in methods
        for seed in range(options.seeds)
    ]
    rows = measure_all(cells, measure, "horizontal-private", options)
    return {
        "exact": {"trees": TREES, "depth": GROWTH.depth, "learning_rate": GROWTH.learning_rate},
        "noisy": {
            "trees": private_federboost.TREES,
            "depth": NOISY.depth,
            "learning_rate": NOISY.learning_rate,
            "trees_of_a_round": private_federboost.TREES_PER_ROUND,
        },
        "delta": DELTA,
        "colluding": 1,
        "rows": summary(rows, ("dataset", "method", "parties", "epsilon"), ("auc",)),
    }


def measure(cell: Mapping[str, Any]) -> dict[str, float]:
    """AUC of one setting.

    Args:
        cell: ``dataset``, ``method``, ``parties``, ``epsilon``, ``seed``; and ``rows`` to train on,
            of all parties, where not two thirds of them all.
    """
    columns, label, *_ = horizontal.pooled(cell["dataset"])
    order = np.argsort(horizontal.words(cell["seed"], len(label)), kind="stable")
    train, test = np.split(order, [int(_TRAIN * len(order))])
    train = train[: cell.get("rows")]
    held = [column[test] for column in columns]
    mine = [column[train] for column in columns]
    known, truth = label[train], label[test]
    settings = Settings(_OBJECTIVE, (DOMAIN,) * len(columns), TREES, BUCKETS, GROWTH)
    if cell["method"] == "dpboost":
        found = _central(mine, known, held, cell["epsilon"])
        return {"auc": horizontal.auc(truth, found)}
    if cell["method"] == "alone":
        shares = np.array_split(np.arange(len(known)), cell["parties"])
        models = [
            federboost.learn([column[share] for column in mine], known[share], settings, Alone())
            for share in shares
        ]
        one = [horizontal.auc(truth, horizontal.scores(model, held)) for model in models]
        return {"auc": float(np.mean(one))}
    if cell["method"] == "exact":
        ensemble = federboost.learn(mine, known, settings, Alone())
    else:
        private = Private(cell["epsilon"], DELTA, cell["parties"] - 1)
        trees, buckets = private_federboost.TREES, private_federboost.BUCKETS
        settings = Settings(_OBJECTIVE, (DOMAIN,) * len(columns), trees, buckets, NOISY)
        rounds = NoisyAlone(cell["parties"], noise_of(settings, private).means)
        ensemble = learn_private(mine, known, settings, private, rounds)
    return {"auc": horizontal.auc(truth, horizontal.scores(ensemble, held))}


def _central(
    columns: Sequence[np.ndarray], label: np.ndarray, held: Sequence[np.ndarray], epsilon: float
) -> np.ndarray:
    """DPBoost on the pooled rows, with its own defaults and the same cells as candidates."""
    names = tuple(f"x{i}" for i in range(len(columns)))
    ends = tuple(float(end) + 0.5 for end in cell_ends(DOMAIN)[:-1])
    frame = Frame(names, np.column_stack(columns).astype(float), (), (), dict.fromkeys(names, ends))
    parameters = Parameters(
        task="binary", classes=2, trees=50, learning_rate=0.1, depth=6, seed=0,
        trainer="dpboost", private=Central(epsilon=epsilon),
    )  # fmt: skip
    model = trainer.train(frame, label, parameters)
    return trainer.predict(model, np.column_stack(held).astype(float))


def section(found: Mapping[str, Any], _: Path) -> str:
    """Markdown."""
    epsilons = sorted({row["epsilon"] for row in found["rows"]} - {0.0})
    lines = [
        "## Horizontal learning from noisy sums",
        "",
        f"AUC in percent on a held-out third, delta {found['delta']:g}, {found['colluding']} party "
        "may collude; means of "
        f"{max(row['seeds'] for row in found['rows'])} splits. `exact` is without noise and "
        f"`alone` a party with its own rows, both with {_words(found['exact'])}; `noisy` is from "
        f"noisy sums, {_words(found['noisy'])}; `dpboost` is DPBoost on the pooled rows.",
        "",
    ]
    shown: dict[tuple[str, str], dict[float, str]] = {}
    for row in found["rows"]:
        of = f" of {row['parties']}" if row["parties"] > 1 else ""
        name = row["dataset"], f"`{row['method']}`{of}"
        shown.setdefault(name, {})[row["epsilon"]] = f"{row['auc']:.2f}"
    for dataset in dict.fromkeys(dataset for dataset, _ in shown):
        clear = [f"{n} {by[0.0]}" for (d, n), by in shown.items() if d == dataset and 0.0 in by]
        lines.append(f"- {dataset} without noise: {', '.join(clear)}.")
    heads = ["dataset", "method, of parties", *(f"epsilon {epsilon:g}" for epsilon in epsilons)]
    cells = ([*n, *(by[e] for e in epsilons)] for n, by in shown.items() if 0.0 not in by)
    return "\n".join([*lines, "", table(heads, cells), ""])


def _words(grown: Mapping[str, Any]) -> str:
    return (
        f"{grown['trees']} trees of depth {grown['depth']}, learning rate "
        f"{grown['learning_rate']:g}"
    )


EXPERIMENTS = (
    Experiment(
        "horizontal-private",
        "What a guarantee costs in horizontal learning, on two public tables.",
        run,
        section,
        seeds=5,
        options={"dataset": DATASETS},
    ),
)

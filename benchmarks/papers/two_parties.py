"""The paper's two parties in one process, on a named dataset: for experiments alone.

B's columns are laid on the domain, randomised by the very code that a feature holder runs, and
ranked; A trains on the ranks, and the model is put on values and tested on unrandomised rows.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

import numpy as np
import polars as pl

from opboost_ops.config.feature import Feature
from opboost_ops.config.federation import Label
from opboost_ops.domain import Domain, DomainMap, quantile_edges
from opboost_ops.extras.datasets.tables import ID, Dataset
from opboost_ops.learning import metrics, splits
from opboost_ops.learning.boosters import trainer
from opboost_ops.learning.boosters.backend import Frame, Parameters
from opboost_ops.mechanisms import Mechanism, noise
from opboost_ops.mechanisms.noise import Words
from opboost_ops.mechanisms.release import randomise
from opboost_ops.pipeline.inputs import raw_table
from opboost_ops.pipeline.inputs.model_columns import category_codes, encode_label

#: Where B's columns are laid, the booster, and the share of the rows that is held out where a
#: dataset has no split of its own: the paper's, where an experiment says nothing else.
DOMAIN = Domain(1, 10)
TREES, RATE, DEPTH = 80, 0.1, 3
HELD_OUT = 0.2

_UUID = UUID("6f1d3a52-6f0e-4d0a-9f5e-0e7a3f1c9b12")

#: What randomises B's columns: all of them, or each by its name; None leaves them as they are.
Chosen = Mechanism | Mapping[str, Mechanism] | None

#: Lays a column on the domain, by its name, its declaration and its training rows.
Scale = Callable[[str, Feature, np.ndarray], DomainMap]

#: Rows of the training file of pendigits, which are the first ones of its table.
_PENDIGITS_TRAIN = 7_494


class TwoParties:
    """A dataset of parties A and B of the paper, split into rows, B's columns laid on a domain.

    Args:
        dataset: Of two parties; A is the label holder.
        scale: ``linear``, as the dataset declares it, or ``quantile``: cells of equal shares read
            off the training rows, which leaves no guarantee and is only for comparisons. Or a
            function that lays each column on it.
        seed: Of split and noise.
        domain: Where B's columns are laid.
        held_out: Share of the rows that is held out where the dataset has no split of its own.

    Attributes:
        task: What is learnt.
        classes: How many classes.
        train: How many rows are training rows; they come first.
        label: All labels, numbers or class indices.
        order: Positions of all rows in the tables, training rows first.
        own: Party A's columns, by name.
        nominal: Names of those that are categories.
        integers: Party B's columns on the domain, by name, before they are randomised.
        maps: How each of party B's columns is laid on the domain.
    """

    def __init__(
        self,
        dataset: Dataset,
        scale: str | Scale,
        seed: int,
        domain: Domain = DOMAIN,
        held_out: float = HELD_OUT,
    ) -> None:
        self._domain = domain
        own = dataset.tables[dataset.label_holder]
        (holder,) = (p for p in dataset.tables if p != dataset.label_holder)
        self._secret = hashlib.sha256(f"{seed}/accuracy".encode()).digest()
        ids = own.get_column(ID).to_arrow()
        keys = noise.person_keys(self._secret, ids, "string")
        held = _held_out(dataset.name, keys, held_out)
        order = np.concatenate([np.flatnonzero(~held), np.flatnonzero(held)])
        self.order = order
        self._keys, self.train = keys[order], int((~held).sum())
        label = Label.model_validate(dataset.label)
        rows = own[order]
        self.task = label.task
        self.label, classes = encode_label(rows.get_column(label.column), label, self.train)
        self.classes = len(classes)
        self.own, self.nominal = self._own_columns(rows, dataset.features[dataset.label_holder])
        other = dataset.tables[holder][order]
        self._raw: dict[str, np.ndarray] = {}
        self.integers: dict[str, np.ndarray] = {}
        self.maps: dict[str, DomainMap] = {}
        for column, declared in dataset.features[holder].items():
            feature = Feature.model_validate({"uuid": _UUID, **declared})
            values = raw_table.numbers(other.get_column(column), feature)
            if not isinstance(scale, str):
                mapping = scale(column, feature, values[: self.train])
            elif scale == "quantile":
                # Read off the training rows, which leaves no guarantee: to compare with the paper.
                edges = quantile_edges(values[: self.train], domain.size)
                assert feature.bounds is not None
                mapping = DomainMap(domain, feature.bounds, "edges", edges)
            else:
                mapping = feature.domain_map(domain)
            self._raw[column] = values
            self.integers[column] = mapping.encode(values)
            self.maps[column] = mapping

    def evaluated(
        self, prediction: np.ndarray, label: np.ndarray | None = None
    ) -> dict[str, float]:
        """Accuracy or mean squared error of the test rows, and the second figure of the task.

        Args:
            prediction: Of the test rows.
            label: Theirs; those of the table where absent.
        """
        truth = self.label[self.train :] if label is None else label
        found = metrics.evaluate(self.task, truth, prediction)
        first = "mse" if self.task == "regression" else "accuracy"
        return {"metric": found[first], "second": found[metrics.main_metric(self.task)]}

    def parameters(self, seed: int, **more: Any) -> Parameters:
        """The paper's parameters of the booster, but for those that are given."""
        of = {"trees": TREES, "learning_rate": RATE, "depth": DEPTH, **more}
        return Parameters(task=self.task, classes=self.classes, seed=seed, **of)

    def trained(self, frame: Frame, parameters: Parameters, missing: bool = False) -> str:
        """A model of a training frame, on domain values; see `materialised`."""
        model = trainer.train(frame, self.label[: self.train], parameters)
        return self.materialised(model, frame, missing) if frame.ranked else model

    def figure(self, model: str, rows: np.ndarray) -> float:
        """Accuracy of many classes, otherwise AUC or R2, on the test rows in one form of them."""
        found = self.evaluated(trainer.predict(model, rows))
        return found["metric" if self.task == "multiclass" else "second"]

    def figures(self, mechanism: Chosen, seed: int) -> tuple[float, float]:
        """Of a model that learns from a release: on randomised test rows, and on clear ones."""
        frame, clear = self.frames("released", mechanism)
        model = self.trained(frame, self.parameters(seed))
        return self.figure(model, self.desensitised(mechanism)), self.figure(model, clear)

    def frames(
        self,
        method: str,
        mechanism: Chosen = None,
    ) -> tuple[Frame, np.ndarray]:
        """Training frame and test matrix, both with A's columns first.

        Args:
            method: ``raw`` for B's columns as they are, ``alone`` for none of them; otherwise their
                ranks, and domain values in the test matrix.
            mechanism: What randomises them then, all of them or each by its name; ranks without
                noise when absent.
        """
        others: dict[str, np.ndarray] = {}
        ranked: tuple[str, ...] = ()
        if method == "raw":
            others = self._raw
        elif method != "alone":
            others = {n: v.astype(float) for n, v in self.integers.items()}
            ranked = tuple(others)
        names = (*self.own, *others)
        columns = {**self.own, **others}
        test = np.column_stack([columns[n][self.train :] for n in names])
        if ranked:
            self._values: dict[str, np.ndarray] = {}
            for name, released in self.released(mechanism).items():
                chosen = _of(mechanism, name)
                distinct, inverse = np.unique(released, return_inverse=True)
                own = chosen.channel(self._domain).span(distinct) if chosen else distinct
                self._values[name] = own
                columns[name] = inverse.reshape(-1) + 1.0
        matrix = np.column_stack([columns[n][: self.train] for n in names])
        frame = Frame(names, np.asfortranarray(matrix), self.nominal, ranked)
        return frame, np.asfortranarray(test)

    @property
    def protected(self) -> dict[str, np.ndarray]:
        """B's training rows as integers of the domain, by column, before they are randomised."""
        return {name: values[: self.train] for name, values in self.integers.items()}

    def released(self, mechanism: Chosen, draw: int = 0) -> dict[str, np.ndarray]:
        """B's training rows as a mechanism releases them, by column.

        Args:
            mechanism: What randomises them, as in `frames`.
            draw: Others than 0, which is what A trains on, are independent of it, as releases to
                other receivers are.
        """
        return self._randomised(mechanism, self.protected, "train", draw)

    def desensitised(self, mechanism: Chosen) -> np.ndarray:
        """The test matrix as production has it: B's held-out rows pass the mechanism, too.

        Args:
            mechanism: What randomises them, as in `frames`.
        """
        held = {name: values[self.train :] for name, values in self.integers.items()}
        released = self._randomised(mechanism, held, "held out")
        own = [values[self.train :] for values in self.own.values()]
        matrix = np.column_stack([*own, *(v.astype(float) for v in released.values())])
        return np.asfortranarray(matrix)

    def _randomised(
        self,
        mechanism: Chosen,
        columns: Mapping[str, np.ndarray],
        place: str,
        draw: int = 0,
    ) -> dict[str, np.ndarray]:
        secret = hashlib.sha256(self._secret + bytes([draw])).digest() if draw else self._secret
        found: dict[str, np.ndarray] = {}
        for name, values in columns.items():
            chosen = _of(mechanism, name)
            found[name] = values
            if chosen is not None:
                words = Words.seeded(secret, f"{chosen}/{name}/{place}")
                found[name] = randomise(values, chosen, self._domain, words)
        return found

    def materialised(self, model: str, frame: Frame, missing: bool = False) -> str:
        """The model on domain values, as label holder and feature holder make it together.

        Args:
            model: Trained on ranks.
            frame: What it was trained on.
            missing: Whether rows may lack B's columns.
        """
        highest = {name: len(self._values[name]) for name in frame.ranked if missing}
        used = splits.used_splits(model, frame.ranked, highest)
        values = {
            name: dict(zip(ranks, splits.split_values(ranks, self._values[name]), strict=True))
            for name, ranks in used.items()
        }
        bounds = dict.fromkeys(frame.ranked, (self._domain.lower, self._domain.upper))
        return splits.materialise(model, values, bounds, highest)

    def _own_columns(
        self, rows: pl.DataFrame, features: Mapping[str, Any]
    ) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
        own: dict[str, np.ndarray] = {}
        nominal: list[str] = []
        for name, declared in features.items():
            feature = Feature.model_validate({"uuid": _UUID, **declared})
            if feature.type == "nominal":
                text = rows.get_column(name).cast(pl.String)
                known = text[: self.train].drop_nulls().unique().sort().to_list()
                own[name] = category_codes(text, known)
                nominal.append(name)
            else:
                own[name] = raw_table.numbers(rows.get_column(name), feature)
        return own, tuple(nominal)


def _held_out(name: str, keys: np.ndarray, share: float) -> np.ndarray:
    if name == "pendigits":
        # The official split: the table ends with the file of test rows.
        return np.arange(len(keys)) >= _PENDIGITS_TRAIN
    order = np.argsort(keys[:, :8].copy().view(np.uint64).reshape(-1), kind="stable")
    held = np.zeros(len(keys), dtype=bool)
    held[order[: round(len(keys) * share)]] = True
    return held


def _of(mechanism: Chosen, name: str) -> Mechanism | None:
    return mechanism.get(name) if isinstance(mechanism, Mapping) else mechanism

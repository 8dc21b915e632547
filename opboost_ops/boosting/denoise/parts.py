"""A stack: several models of the same rows, and the weights by which they are mixed."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opboost_ops.boosting.denoise.behind import Behind
from opboost_ops.boosting.denoise.classes import Classes
from opboost_ops.boosting.denoise.codes import Categories, Cells
from opboost_ops.boosting.frame import Frame, threads_for
from opboost_ops.boosting.lightgbm_backend import booster_of
from opboost_ops.boosting.stack_text import PARTS, VERSION, read
from opboost_ops.errors import ContractError

#: How often what is behind a row is drawn.
DRAWS = 20


@dataclass(frozen=True, eq=False)
class Parts:
    """The models, LightGBM's texts, and what they are asked with.

    Attributes:
        names: All columns of ``plain``, in order.
        own: Those of the label holder.
        models: By name, of `PARTS`; ``plain`` is always among them.
        behind: What ``means`` and ``behind`` look at; None where nothing can be drawn back.
        weights: By the same names, none negative, summing to 1; empty before they are learnt.
    """

    names: tuple[str, ...]
    own: tuple[str, ...]
    models: Mapping[str, str]
    behind: Behind | None
    weights: Mapping[str, float] = field(default_factory=dict)

    def predicted(self, matrix: np.ndarray) -> np.ndarray:
        """The mixture's predictions for released rows.

        Args:
            matrix: Others' columns as domain values, float64, shape (n, columns).

        Returns:
            Shape (n,), or (n, classes).
        """
        if not len(matrix):
            return _predicted(self.models["plain"], matrix)
        blocks = []
        for rows in self._blocks(matrix):
            known = None if self.behind is None else self.behind.ranks(self._known(rows))
            found = self._each(rows, known)
            blocks.append(mixed(self.weights, found))
        return np.concatenate(blocks)

    def each(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Every part's predictions for rows of the training frame, others' columns being ranks."""
        blocks = []
        for rows in self._blocks(matrix):
            blocks.append(self._each(rows, None if self.behind is None else self._known(rows)))
        return {name: np.concatenate([block[name] for block in blocks]) for name in self.models}

    def _blocks(self, matrix: np.ndarray) -> Iterator[np.ndarray]:
        size = len(matrix) if self.behind is None else self.behind.block
        for begin in range(0, max(1, len(matrix)), max(1, size)):
            yield np.asfortranarray(matrix[begin : begin + size])

    def _known(self, rows: np.ndarray) -> np.ndarray:
        """The columns that latent classes know: all but those that cannot be drawn back."""
        assert self.behind is not None
        return rows[:, [self.names.index(name) for name in self.behind.frame.names]]

    def _each(self, rows: np.ndarray, known: np.ndarray | None) -> dict[str, np.ndarray]:
        found = {"plain": _predicted(self.models["plain"], rows)}
        if "own" in self.models:
            mine = rows[:, [self.names.index(name) for name in self.own]]
            found["own"] = _predicted(self.models["own"], mine)
        if self.behind is None or known is None:
            return found
        behind = self.behind.at(known)
        if "means" in self.models:
            found["means"] = _predicted(self.models["means"], behind.widened())
        if "behind" in self.models:
            booster = booster_of(self.models["behind"])
            total = np.zeros_like(found["plain"])
            for clear in behind.drawn(DRAWS):
                total += _asked(booster, clear)
            found["behind"] = total / DRAWS
        return found

    def text(self) -> str:
        """The stack as `stack_text` says."""
        return json.dumps(
            {
                "stack": VERSION,
                "names": list(self.names),
                "own": list(self.own),
                "weights": dict(self.weights),
                "models": dict(self.models),
                "latent": self._latent(),
            }
        )

    def _latent(self) -> dict[str, Any] | None:
        if self.behind is None:
            return None
        behind, classes = self.behind, self.behind.classes
        return {
            "names": list(behind.frame.names),
            "categorical": list(behind.frame.categorical),
            "outputs": {name: of.tolist() for name, of in behind.outputs.items()},
            "laws": {name: of.tolist() for name, of in behind.laws.items()},
            "numbers": _written(behind.codings, Cells),
            "categories": _written(behind.codings, Categories),
            "pi": classes.pi.tolist(),
            "theta": {name: of.tolist() for name, of in classes.theta.items()},
            "psi": {name: of.tolist() for name, of in classes.psi.items()},
            "seed": behind.seed.hex(),
        }

    @classmethod
    def parse(cls, text: str) -> "Parts":
        """Read a stack.

        Args:
            text: As `text` writes it.

        Raises:
            ContractError: It is no stack, or one of another release's format.
        """
        found = read(text)
        try:
            latent = found["latent"]
            return cls(
                names=tuple(found["names"]),
                own=tuple(found["own"]),
                models={name: str(model) for name, model in found["models"].items()},
                behind=None if latent is None else _behind(latent),
                weights={name: float(of) for name, of in found["weights"].items()},
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ContractError("This file is no stack of models.") from None


def mixed(weights: Mapping[str, float], predictions: Mapping[str, np.ndarray]) -> np.ndarray:
    """Predictions, mixed in the order of `PARTS`.

    Args:
        weights: By part.
        predictions: By part.
    """
    total = np.zeros_like(predictions["plain"])
    for name in PARTS:
        if weights.get(name):
            total += weights[name] * predictions[name]
    return total


def _predicted(text: str, rows: np.ndarray) -> np.ndarray:
    return _asked(booster_of(text), rows)


def _asked(booster: Any, rows: np.ndarray) -> np.ndarray:
    return np.asarray(booster.predict(rows, num_threads=threads_for(rows.size)))


def _written(
    codings: Mapping[str, Cells | Categories], kind: type[Cells | Categories]
) -> dict[str, Any]:
    return {name: vars(of) for name, of in codings.items() if isinstance(of, kind)}


def _behind(latent: Mapping[str, Any]) -> Behind:
    def arrays(key: str) -> dict[str, np.ndarray]:
        return {name: np.array(of, dtype=np.float64) for name, of in latent[key].items()}

    codings: dict[str, Cells | Categories] = {
        name: Cells(tuple(of["edges"]), tuple(of["present"]), bool(of["missing"]))
        for name, of in latent["numbers"].items()
    }
    codings |= {
        name: Categories(tuple(of["values"]), tuple(of["places"]))
        for name, of in latent["categories"].items()
    }
    names, outputs = tuple(latent["names"]), latent["outputs"]
    pi = np.array(latent["pi"], dtype=np.float64)
    return Behind(
        frame=Frame(names, np.empty((0, len(names))), tuple(latent["categorical"]), tuple(outputs)),
        outputs={name: np.array(of, dtype=np.int64) for name, of in outputs.items()},
        laws=arrays("laws"),
        codings=codings,
        classes=Classes(pi, arrays("theta"), arrays("psi"), np.ones((1, len(pi))), fixed=False),
        seed=bytes.fromhex(latent["seed"]),
    )

"""What is likely to lie behind released rows whose label nobody knows."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from opboost_ops.boosting.denoise.classes import Classes
from opboost_ops.boosting.denoise.codes import Categories, Cells
from opboost_ops.boosting.denoise.draws import Draws
from opboost_ops.boosting.denoise.imputation import inverted
from opboost_ops.boosting.denoise.rows import codings_of, rows_of
from opboost_ops.boosting.denoise.seen import BLOCK, Seen
from opboost_ops.boosting.frame import Frame

#: How a column of posterior means is named, before the column's own name.
MEAN = "mean/"

#: Bytes of what a row's draws are keyed by.
_KEY = 16


@dataclass(frozen=True, eq=False)
class Behind:
    """Latent classes without a label, and how rows become what they were fitted to.

    A row's figures are a function of that row alone, whichever others are asked for with it: so
    evaluation, a file of new rows and a part of one agree to the bit.

    Attributes:
        frame: The columns, others' ones being ranks; without rows.
        outputs: What each rank of a released column is, rising, by column.
        laws: Pr[output | value] by the same columns, shape (k, k).
        codings: Of all other columns.
        classes: Fitted to training rows, with no level of the label.
        seed: Of all draws, 32 bytes.
    """

    frame: Frame
    outputs: Mapping[str, np.ndarray]
    laws: Mapping[str, np.ndarray]
    codings: Mapping[str, Cells | Categories]
    classes: Classes
    seed: bytes

    @classmethod
    def learnt(
        cls,
        frame: Frame,
        outputs: Mapping[str, np.ndarray],
        laws: Mapping[str, np.ndarray],
        fitted: Classes,
        seed: bytes,
    ) -> "Behind":
        """Of training rows and the classes that were fitted to them.

        Args:
            frame: The rows, with no other released columns than those of the laws.
            outputs: What each rank of these is.
            laws: Of them.
            fitted: The classes.
            seed: Of all draws.
        """
        codings = codings_of(frame, laws)
        # A code that no training row had says nothing of the class.
        psi = {name: np.vstack([fitted.psi[name], np.ones(len(fitted.pi))]) for name in codings}
        phi = np.ones((1, len(fitted.pi)))
        classes = replace(fitted, psi=psi, phi=phi, fixed=False)
        empty = replace(frame, matrix=frame.matrix[:0], weight=None)
        return cls(empty, outputs, laws, codings, classes, seed)

    def ranks(self, values: np.ndarray) -> np.ndarray:
        """Rows of domain values as those that the models were trained on.

        Args:
            values: In the order of the frame's columns, float64, shape (n, columns).
        """
        found = np.array(values, dtype=np.float64, order="F")
        for name, outputs in self.outputs.items():
            place = self.frame.names.index(name)
            at = np.minimum(np.searchsorted(outputs, values[:, place]), len(outputs) - 1)
            found[:, place] = at + 1.0
        return found

    @property
    def block(self) -> int:
        """How many rows are worked on at once: what they need is about 64 MB of floats."""
        widest = max([len(self.classes.pi), *(len(law) for law in self.laws.values())])
        return max(1, BLOCK // (4 * widest))

    def widened(self, frame: Frame) -> Frame:
        """A frame with the posterior mean E[x | y, w] of each released column beside it.

        Args:
            frame: Of this one's columns.
        """
        found = np.empty((len(frame.matrix), len(frame.names) + len(self.laws)), order="F")
        for begin in range(0, len(found), self.block):
            here = slice(begin, begin + self.block)
            found[here] = self.at(frame.matrix[here]).widened()
        names = (*frame.names, *(f"{MEAN}{name}" for name in self.laws))
        return replace(frame, names=names, matrix=found)

    def at(self, ranks: np.ndarray) -> "RowsBehind":
        """What is behind some rows.

        Args:
            ranks: Of `ranks`, no more than a block.
        """
        return RowsBehind(self, np.asfortranarray(ranks))

    @cached_property
    def means(self) -> dict[str, np.ndarray]:
        """E[x | y, class] by released column, shape (outputs, Z)."""
        found = {}
        for name, law in self.laws.items():
            theta = self.classes.theta[name]
            values = (np.arange(len(law)) + 1.0)[:, None]
            found[name] = (law.T @ (values * theta)) / np.maximum(law.T @ theta, 1e-300)
        return found


class RowsBehind:
    """A block of rows, and what is behind it.

    Args:
        behind: The classes.
        ranks: The rows.
    """

    def __init__(self, behind: Behind, ranks: np.ndarray) -> None:
        self._behind, self._ranks = behind, ranks
        frame = replace(behind.frame, matrix=ranks)
        self._rows = rows_of(frame, behind.laws, behind.codings)
        self._likely = Seen(self._rows, behind.classes).responsibilities(behind.classes)

    def widened(self) -> np.ndarray:
        """The rows with the posterior mean of each released column beside them."""
        means = self._behind.means
        found = [
            (self._likely * means[name][outputs]).sum(axis=1)
            for name, outputs in self._rows.noisy.items()
        ]
        return np.asfortranarray(np.column_stack([self._ranks, *found]))

    def drawn(self, count: int) -> Iterator[np.ndarray]:
        """The rows with what may lie behind their released cells, several times over.

        Args:
            count: How often.
        """
        draws, keys, likely = Draws(self._behind.seed), self._keys(), self._likely.T
        classes, laws = self._behind.classes, self._behind.laws
        for draw in range(count):
            clear = self._ranks.copy(order="F")
            z = inverted(likely, draws.of_keys(f"behind {draw}/class", keys))
            for name, outputs in self._rows.noisy.items():
                weights = classes.theta[name][:, z] * laws[name][:, outputs]
                uniform = draws.of_keys(f"behind {draw}/{name}", keys)
                place = self._behind.frame.names.index(name)
                clear[:, place] = inverted(weights, uniform) + 1.0
            yield clear

    def _keys(self) -> np.ndarray:
        """What a row's draws are keyed by: rows of the same codes have the same."""
        codes = [*self._rows.noisy.values(), *self._rows.own.values()]
        lines = np.ascontiguousarray(np.column_stack(codes).astype("<i4"))
        each = (hashlib.blake2b(line, digest_size=_KEY).digest() for line in lines)
        return np.frombuffer(b"".join(each), dtype=np.uint8).reshape(-1, _KEY)
